"""The kinds of sources that there are. Another one is a folder here and a line in the table."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from pgrepl.config.model import SourceConfig, SourceKind
from pgrepl.errors import ConfigError
from pgrepl.receiver.source import Source, Surroundings

__all__ = ["make_source"]

#: Module and class; a kind is imported when a source of it is received: some need more packages.
_KINDS: Mapping[SourceKind, tuple[str, str]] = {
    "postgres": ("pgrepl.receiver.postgres.source", "PostgresSource"),
    "kafka": ("pgrepl.receiver.kafka.source", "KafkaSource"),
    "files": ("pgrepl.receiver.files.source", "FilesSource"),
}


def make_source(config: SourceConfig, surroundings: Surroundings) -> Source:
    """Return what reads a source of the configuration; nothing is connected yet.

    Raises
    ------
    ConfigError
        when a package is not installed that its kind needs.

    """
    module, name = _KINDS[config.kind]
    try:
        make = getattr(import_module(module), name)
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("pgrepl"):
            raise
        raise ConfigError(
            f'source "{config.name}" is of kind "{config.kind}", and package {exc.name} is missing',
            hint="Install pgrepl with it: pip install 'pgrepl[kafka]'",
        ) from exc
    source: Source = make(config, surroundings)
    return source
