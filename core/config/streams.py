"""The keys of a source that is no database but topics, or files: part of its section."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from pgrepl.config import keys
from pgrepl.config.dsn import MASK, mask_uris
from pgrepl.config.secrets import mask_settings
from pgrepl.errors import ConfigError

__all__ = ["Envelope", "RecordFormat", "StreamConfig", "StreamStart", "TopicPattern"]

Envelope = Literal["upsert", "debezium-upsert", "debezium"]
RecordFormat = Literal["json", "avro"]
StreamStart = Literal["complete", "retained"]

#: Settings of librdkafka that pgrepl decides: where it reads, and what it takes for read.
_OWN_SETTINGS = frozenset(
    {
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "metadata.broker.list",
        "partition.assignment.strategy",
    }
)
#: Ends the name of a setting whose value stands in a file, or in the environment.
_FROM_FILE, _FROM_ENVIRONMENT = ".file", ".env"
_SECRET = re.compile(r"pem|jaas|oauthbearer\.config", re.IGNORECASE)
#: Debezium's settings that a record without a schema does not tell.
_DEBEZIUM = frozenset(
    {
        "binary.handling.mode",
        "decimal.handling.mode",
        "interval.handling.mode",
        "time.precision.mode",
        "unavailable.value.placeholder",
    }
)


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A topic, or with ``^`` before it a regular expression that topics match from their start."""

    text: str
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile it."""
        if not self.text:
            message = "a topic has a name"
            raise ValueError(message)
        try:
            pattern = re.compile(self.text if self.is_open else re.escape(self.text))
        except (re.error, OverflowError, RecursionError) as exc:
            message = f'"{self.text}" is not a regular expression: {exc}'
            raise ValueError(message) from exc
        object.__setattr__(self, "_pattern", pattern)

    @property
    def is_open(self) -> bool:
        """Whether topics made later may match."""
        return self.text.startswith("^")

    def matches(self, topic: str) -> bool:
        """Whether a topic is meant."""
        return bool(self._pattern.fullmatch(topic))


def _check_librdkafka(name: str) -> str | None:
    base = name.removesuffix(_FROM_FILE).removesuffix(_FROM_ENVIRONMENT)
    return "is pgrepl's own to set" if base in _OWN_SETTINGS else None


def _check_debezium(name: str) -> str | None:
    if name in _DEBEZIUM:
        return None
    return f"is none of {', '.join(sorted(_DEBEZIUM))}"


def _check_registry(address: str) -> str | None:
    with suppress(ValueError):
        if not address or urlsplit(address).scheme in ("http", "https"):
            return None
    return "is no address that begins with http:// or https://"


def _mask(settings: Mapping[str, str]) -> dict[str, str]:
    masked = mask_settings(settings)
    return {
        name: MASK if _SECRET.search(name) and not name.endswith((".file", ".env")) else value
        for name, value in masked.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """What a source of kind ``kafka`` or ``files`` has besides its name."""

    bootstrap: str = field(
        default="",
        metadata=keys.text(
            'of `kind = "kafka"`: brokers to begin with, `host:port` with commas between'
        ),
    )
    topics: tuple[TopicPattern, ...] = field(
        default=(),
        metadata=keys.patterns(
            'of `kind = "kafka"`: the topics, by name or as `^` and a regular expression',
            TopicPattern,
            name="topics",
        ),
    )
    #: May hold name and password.
    registry: str = field(
        default="",
        repr=False,
        metadata=keys.text(
            'the schema registry of `format = "avro"`, such as `http://host:8081`; may hold name'
            " and password",
            check=_check_registry,
            write=mask_uris,
        ),
    )
    #: May hold secrets.
    librdkafka: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}),
        repr=False,
        metadata=keys.settings(
            "any setting of librdkafka, passed through; `sasl.password.file` reads a value from a"
            " file, `sasl.password.env` from the environment",
            check=_check_librdkafka,
            write=_mask,
        ),
    )
    envelope: Envelope = field(
        default="upsert",
        metadata=keys.choice(
            'what a record means: `"upsert"`, the last value of a key wins; `"debezium-upsert"`,'
            ' the same from Debezium\'s events; `"debezium"`, every event once, see'
            " [kafka](kafka.md#envelopes)",
            Envelope,
        ),
    )
    format: RecordFormat = field(
        default="json",
        metadata=keys.choice(
            'how keys and values are written: `"json"`, with or without schemas, or `"avro"` in'
            " Confluent's framing",
            RecordFormat,
        ),
    )
    transaction_topic: str = field(
        default="",
        metadata=keys.text(
            'Debezium\'s transaction topic, for `envelope = "debezium"`: no transaction is then'
            " received in part"
        ),
    )
    debezium: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}),
        metadata=keys.settings(
            "settings of the Debezium that wrote records without schemas, as"
            " `decimal.handling.mode`; see [kafka](kafka.md#values)",
            check=_check_debezium,
            write=dict,
        ),
    )
    start: StreamStart = field(
        default="complete",
        metadata=keys.choice(
            'what a new source does about topics whose first records are deleted: `"complete"`'
            ' refuses them, `"retained"` takes what is left',
            StreamStart,
        ),
    )
    path: str = field(
        default="",
        metadata=keys.text(
            'of `kind = "files"`: a folder of `.jsonl`, `.avro` or `.parquet` files; a file, or a'
            " folder of files, is named after its table"
        ),
    )
    key: tuple[str, ...] = field(
        default=(),
        metadata=keys.words(
            'of `kind = "files"`: the columns that are the key, where a record is the row itself'
            " and not an object of key and value"
        ),
    )

    @property
    def shown_registry(self) -> str:
        """The registry without its password."""
        return mask_uris(self.registry)

    def matches(self, topic: str) -> bool:
        """Whether a topic is one of the source's."""
        return any(pattern.matches(topic) for pattern in self.topics)

    def client_settings(self) -> dict[str, str]:
        """Return the settings of librdkafka, those read that stand elsewhere.

        Raises
        ------
        ConfigError
            when one does not.

        """
        return dict(_resolve(name, value) for name, value in self.librdkafka.items())


def _resolve(name: str, value: str) -> tuple[str, str]:
    if name.endswith(_FROM_FILE):
        try:
            text = Path(value).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"cannot read {value}, which librdkafka.{name} names") from exc
        return name.removesuffix(_FROM_FILE), text.rstrip("\n")
    if name.endswith(_FROM_ENVIRONMENT):
        found = os.environ.get(value)
        if found is None:
            raise ConfigError(
                f"{value} is not in the environment, and librdkafka.{name} names it",
                hint=f"Set {value}, or use {name.removesuffix(_FROM_ENVIRONMENT)}.file.",
            )
        return name.removesuffix(_FROM_ENVIRONMENT), found
    return name, value
