"""Where a cluster is: ``kafka://host:port/prefix``, and librdkafka's settings in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pgrepl.errors import ConfigError

__all__ = ["KafkaAddress"]

_SCHEME = "kafka://"
#: What the export itself sets.
_OWN = frozenset({"bootstrap.servers", "transactional.id", "partitioner", "isolation.level"})


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """Brokers to begin with, and what the names of topics begin with."""

    bootstrap: str
    prefix: str
    #: Of topics that do not exist; -1: as many as the brokers give them.
    partitions: int = -1
    #: May hold secrets.
    settings: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(
        cls, text: str, *, prefix: str, partitions: int = -1, settings: Path | None = None
    ) -> KafkaAddress:
        """Read an address; without a prefix it is the one given here.

        Raises
        ------
        ValueError
            when it is none.
        ConfigError
            when the file of settings cannot be read.

        """
        bootstrap, _, path = text.removeprefix(_SCHEME).partition("/")
        if not text.startswith(_SCHEME) or not bootstrap or "/" in path or "@" in bootstrap:
            raise ValueError(f'"{text}" is not an address as kafka://host:9092/prefix')
        own = {} if settings is None else _read_settings(settings)
        return cls(bootstrap, path or prefix, partitions, own)

    def __str__(self) -> str:
        """Print it without what the settings hold."""
        return f"{_SCHEME}{self.bootstrap}/{self.prefix}"

    def client_settings(self) -> dict[str, str | int | float | bool]:
        """Return what a client of librdkafka needs to get there."""
        return {**self.settings, "bootstrap.servers": self.bootstrap}


def _read_settings(path: Path) -> dict[str, str]:
    """Read lines of ``name=value``, as the files of Kafka's own tools have them."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"cannot read {path}, which --kafka-settings names") from exc
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals or name.strip() in _OWN:
            raise ConfigError(
                f"line {number} of {path} is no setting of librdkafka's that can be set here",
                hint="Each line is name=value.",
            )
        found[name.strip()] = value.strip()
    return found
