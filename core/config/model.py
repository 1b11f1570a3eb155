"""The configuration as the program uses it: frozen values, valid once they exist.

A key is declared here and nowhere else: type and default by its field, how the file gives it and
what it means by ``pgrepl.config.keys``; ``make docs`` then writes its row of
``docs/configuration.md``. ``pgrepl.config.file`` reads ``pgrepl.toml``; nothing here reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pgrepl.config import keys
from pgrepl.config.alerts import AlertsConfig
from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.config.naming import (
    IDENTIFIER_BYTES,
    SchemaTemplate,
    TableSelection,
    default_owner,
)
from pgrepl.config.rules import RuleConfig, Rules
from pgrepl.config.spark import SparkConfig
from pgrepl.config.streams import StreamConfig
from pgrepl.errors import UsageError

__all__ = [
    "BUCKET_COUNT",
    "CODE_KINDS",
    "SECTIONS",
    "BacklogMode",
    "Config",
    "Consistency",
    "DdlConfig",
    "HousekeepingConfig",
    "OnConflict",
    "OnError",
    "Plugin",
    "ReplayConfig",
    "SourceConfig",
    "SourceKind",
    "SparkConfig",
    "SpecialFloats",
    "TargetConfig",
]

#: The number of buckets that tables are hashed into, for ever; there can be no more shards.
BUCKET_COUNT = 64

_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
#: A century: more than that no clock need count back.
_LONGEST_HISTORY = timedelta(days=36_500)

Consistency = Literal["shard", "batch"]
OnError = Literal["park", "stop"]
OnConflict = Literal["error", "apply"]
SpecialFloats = Literal["mark", "exact"]
BacklogMode = Literal["pull", "stream"]
SourceKind = Literal["postgres", "kafka", "files"]
Plugin = Literal["wal2json", "pgoutput"]

#: What DDL may bring besides tables and what they need.
_DDL_KINDS = ("views", "functions", "triggers", "grants", "policies")
#: Of these: code, which comes only from sources with ``trust_code``.
CODE_KINDS = frozenset({"functions", "policies", "triggers"})


def _check_slot(slot: str) -> str | None:
    if _SLOT_NAME.fullmatch(slot):
        return None
    return (
        f'"{slot}" cannot be a slot: only lower-case letters, digits and _,'
        f" at most {IDENTIFIER_BYTES} of them"
    )


def _check_role(role: str) -> str | None:
    if len(role.encode()) <= IDENTIFIER_BYTES:
        return None
    return f"a role's name has at most {IDENTIFIER_BYTES} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """Section ``[target]``."""

    dsn: Dsn = field(
        metadata=keys.converted(
            "the target database: any libpq connection string or URI",
            Dsn,
            write=Dsn.masked,
            empty=Dsn(""),
        )
    )

    @property
    def endpoint(self) -> Endpoint:
        """The target as a database to connect to."""
        return Endpoint(Side.TARGET, "target", self.dsn)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig:
    """Section ``[replay]``."""

    shards: int = field(
        default=4,
        metadata=keys.integer(
            f"how many Spark tasks apply changes at the same time, 1 to {BUCKET_COUNT}; may be"
            " changed at any start",
            low=1,
            high=BUCKET_COUNT,
        ),
    )
    batch_seconds: int = field(
        default=30,
        metadata=keys.integer("maximum seconds of source time in one batch", low=1, high=86_400),
    )
    consistency: Consistency = field(
        default="shard",
        metadata=keys.choice(
            '`"shard"`: shards commit on their own. `"batch"`: no reader ever sees part of a source'
            " transaction",
            Consistency,
        ),
    )
    on_error: OnError = field(
        default="park",
        metadata=keys.choice(
            'what a change that cannot be applied does: `"park"` its table, or `"stop"` everything',
            OnError,
        ),
    )
    on_conflict: OnConflict = field(
        default="error",
        metadata=keys.choice(
            "what a row does that is missing on the target, or there already, because the target"
            ' was written to: `"error"`, as `on_error` says, or `"apply"` the source\'s row all the'
            " same; both are counted in `replication.conflict`",
            OnConflict,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingConfig:
    """Section ``[housekeeping]``."""

    foreign_key_indexes: bool = field(
        default=True,
        metadata=keys.boolean(
            "make the indexes on foreign keys that the source does not have either; see"
            " [housekeeping](housekeeping.md)"
        ),
    )
    history: timedelta = field(
        default=timedelta(days=30),
        metadata=keys.duration(
            "how long bindings and the history of parked tables and DDL are kept, that of DDL two"
            " days at least: a whole number and `s`, `min`, `h` or `d`",
            high=_LONGEST_HISTORY,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlConfig:
    """Section ``[ddl]``."""

    include: tuple[str, ...] = field(
        default=(),
        metadata=keys.choices(
            "what captured DDL brings besides tables and what they need: some of"
            ' `"views"`, `"functions"`, `"triggers"`, `"grants"`, `"policies"`; see [ddl](ddl.md)',
            _DDL_KINDS,
        ),
    )
    resync: bool = field(
        default=True,
        metadata=keys.boolean(
            "replay copies tables again whose rows DDL left different from the source's; see"
            " [ddl](ddl.md#what-text-cannot-reproduce)"
        ),
    )
    on_error: OnError = field(
        default="park",
        metadata=keys.choice(
            'what DDL that cannot be applied does: `"park"`, it waits with its tables and their'
            ' changes while the rest of the source goes on, or `"stop"` its source; see'
            " [ddl](ddl.md#when-it-cannot-be-applied)",
            OnError,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One section ``[sources.NAME]``."""

    name: str
    dsn: Dsn = field(
        default=Dsn(""),
        metadata=keys.converted(
            "the source database",
            Dsn,
            write=Dsn.masked,
            default_words='none, required of `kind = "postgres"`',
        ),
    )
    slot: str = field(
        metadata=keys.text(
            "the logical replication slot; the replication origin on the target has the same name",
            default_for=lambda name: f"pgrepl_{name}",
            check=_check_slot,
        )
    )
    #: Empty, where no file was read: named after the source.
    owner: str = field(
        default="",
        metadata=keys.text(
            "the role that owns this source's schemas on the target; see"
            " [privileges](privileges.md)",
            default_for=default_owner,
            check=_check_role,
        ),
    )
    schema: SchemaTemplate = field(
        default=SchemaTemplate("{db}_{schema}"),
        metadata=keys.converted(
            "the target schema of each source schema, from `{source}`, `{db}` and `{schema}`",
            SchemaTemplate,
            write=lambda template: template.text,
        ),
    )
    selection: TableSelection = field(metadata=keys.group(TableSelection))
    rules: Rules = field(
        default=Rules(),
        metadata=keys.entries(
            "columns and rows that reach the target masked or not at all, as sections"
            " `[[sources.NAME.rules]]`; see [rules](rules.md)",
            RuleConfig,
            Rules,
        ),
    )
    #: In bytes. None: no limit.
    max_spool: int | None = field(
        default=None,
        metadata=keys.size(
            'receiving pauses while the spool holds so much of this source, such as `"20GB"`: a'
            " whole number and `kB`, `MB`, `GB` or `TB`",
            default_words="no limit",
        ),
    )
    special_floats: SpecialFloats = field(
        default="mark",
        metadata=keys.choice(
            "what to do about NaN and Infinity, which wal2json before 2.6 prints as null:"
            ' `"mark"` the table where that is certain, or `"exact"`, at the price of speed; see'
            " [receive](receive.md)",
            SpecialFloats,
        ),
    )
    backlog: BacklogMode = field(
        default="pull",
        metadata=keys.choice(
            'how to receive what has piled up on the source: `"pull"` it by SQL in big chunks, or'
            ' `"stream"` it like all else; see [receive](receive.md#backlogs)',
            BacklogMode,
        ),
    )
    trust_code: bool = field(
        default=False,
        metadata=keys.boolean(
            "bring functions, operators and all that calls them from the source. Whoever may change"
            " the source's schema can then run SQL on the target, with pgrepl's rights; see"
            " [basebackup](basebackup.md#code-stays-on-the-source)"
        ),
    )
    kind: SourceKind = field(
        default="postgres",
        metadata=keys.choice(
            'what the source is: `"postgres"`, a server; `"kafka"`, topics; `"files"`, a folder;'
            " see [kafka](kafka.md)",
            SourceKind,
        ),
    )
    plugin: Plugin = field(
        default="wal2json",
        metadata=keys.choice(
            "the output plugin that decodes its changes, see [plugins](plugins.md)", Plugin
        ),
    )

    stream: StreamConfig = field(
        default=StreamConfig(), metadata=keys.group(StreamConfig, is_optional=True)
    )

    def __post_init__(self) -> None:
        """Have schemas named as the rules say."""
        schema = replace(self.schema, renamed=self.rules.schemas)
        object.__setattr__(self, "schema", schema)

    @property
    def endpoint(self) -> Endpoint:
        """The source as a database to connect to.

        Raises
        ------
        UsageError
            when it is none.

        """
        if not self.is_database:
            raise UsageError(
                f'source "{self.name}" is of kind "{self.kind}", and this needs a database',
                hint="Topics and files are only received and replayed; see docs/kafka.md.",
            )
        return Endpoint(Side.SOURCE, self.name, self.dsn)

    @property
    def is_database(self) -> bool:
        """Whether the source is a server that can be asked."""
        return self.kind == "postgres"

    @property
    def db(self) -> str | None:
        """What ``{db}`` stands for, as far as the file says it: streams have their own name."""
        return self.dsn.dbname if self.is_database else self.name

    @property
    def origin(self) -> str:
        """The replication origin on the target, named like the slot."""
        return self.slot

    @property
    def owner_role(self) -> str:
        """The role that owns its schemas on the target, where there is one."""
        return self.owner or default_owner(self.name)


#: The sections of the file besides the sources, in its order.
SECTIONS: Mapping[str, type] = MappingProxyType(
    {
        "target": TargetConfig,
        "spark": SparkConfig,
        "replay": ReplayConfig,
        "housekeeping": HousekeepingConfig,
        "ddl": DdlConfig,
        "alerts": AlertsConfig,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A whole ``pgrepl.toml``."""

    path: Path
    target: TargetConfig
    spark: SparkConfig
    replay: ReplayConfig
    sources: Mapping[str, SourceConfig]
    housekeeping: HousekeepingConfig = HousekeepingConfig()
    ddl: DdlConfig = field(default_factory=DdlConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)

    def source(self, name: str) -> SourceConfig:
        """Return the source of this name.

        Raises
        ------
        UsageError
            when the configuration has no such source.

        """
        try:
            return self.sources[name]
        except KeyError:
            known = ", ".join(sorted(self.sources)) or "none"
            raise UsageError(
                f'there is no source "{name}" in {self.path}',
                hint=f"Sources there: {known}.",
            ) from None
