"""The kinds of sources that there are. Another one is a folder here and a line in the table."""

from __future__ import annotations

from collections.abc import Mapping

from pgrepl.config.model import SourceConfig, SourceKind
from pgrepl.receiver.postgres.source import PostgresSource
from pgrepl.receiver.source import MakeSource, Source, Surroundings

__all__ = ["make_source"]

_KINDS: Mapping[SourceKind, MakeSource] = {"postgres": PostgresSource}


def make_source(config: SourceConfig, surroundings: Surroundings) -> Source:
    """Return what reads a source of the configuration; nothing is connected yet."""
    return _KINDS[config.kind](config, surroundings)
