"""The configuration as the program uses it: frozen values, valid once they exist.

``pgrepl.config.file`` builds it from ``pgrepl.toml``; nothing here reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from pgrepl.config.dsn import MASK, URI_USERINFO, Dsn, Endpoint, Side, mask_uris, uri_passwords
from pgrepl.config.naming import SchemaTemplate, TableSelection, default_owner
from pgrepl.errors import UsageError

__all__ = [
    "BUCKET_COUNT",
    "CODE_KINDS",
    "CONSISTENCIES",
    "DDL_KINDS",
    "ON_CONFLICTS",
    "ON_ERRORS",
    "PLUGINS",
    "SECRET_PATTERN",
    "SOURCE_KINDS",
    "SPECIAL_FLOATS",
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

#: Tables are hashed into so many buckets for ever, so there can be no more shards than that.
BUCKET_COUNT = 64

# What makes a setting secret, in its name or in its value: the words that Spark itself looks for,
# and some more.
_HIDDEN_WORDS = (
    r"secret|passw(?:or)?d|passphrase|pass=|pwd=|token|credential"
    r"|(?:access|private|api)[._-]?key"
)
#: The same with URIs that hold a password, for Python and for Java, whatever the case.
SECRET_PATTERN = f"{_HIDDEN_WORDS}|{URI_USERINFO}"
_HIDDEN = re.compile(_HIDDEN_WORDS, re.IGNORECASE)
_SECRET = re.compile(SECRET_PATTERN, re.IGNORECASE)

Consistency = Literal["shard", "batch"]
OnError = Literal["park", "stop"]
OnConflict = Literal["error", "apply"]
SpecialFloats = Literal["mark", "exact"]
SourceKind = Literal["postgres"]
Plugin = Literal["wal2json"]
CONSISTENCIES: tuple[str, ...] = get_args(Consistency)
ON_ERRORS: tuple[str, ...] = get_args(OnError)
ON_CONFLICTS: tuple[str, ...] = get_args(OnConflict)
SPECIAL_FLOATS: tuple[str, ...] = get_args(SpecialFloats)
SOURCE_KINDS: tuple[str, ...] = get_args(SourceKind)
PLUGINS: tuple[str, ...] = get_args(Plugin)

#: What DDL may bring besides tables and what they need.
DDL_KINDS = ("views", "functions", "triggers", "grants", "policies")
#: Of these: code, which comes only from sources with ``trust_code``.
CODE_KINDS = frozenset({"functions", "policies", "triggers"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """Section ``[target]``."""

    dsn: Dsn

    @property
    def endpoint(self) -> Endpoint:
        """The target as a database to connect to."""
        return Endpoint(Side.TARGET, "target", self.dsn)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """Section ``[spark]``."""

    master: str = "local[*]"
    #: Passed through as it is; may hold secrets of the cluster.
    conf: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @property
    def shown_master(self) -> str:
        """The master without a password, should its URI hold one."""
        return mask_uris(self.master)

    def masked_conf(self) -> dict[str, str]:
        """Return the settings with their secrets struck out."""
        return {
            key: MASK if _HIDDEN.search(key) or _HIDDEN.search(value) else mask_uris(value)
            for key, value in self.conf.items()
        }

    def secret_conf(self) -> dict[str, str]:
        """Return the settings that hold a secret."""
        return {k: v for k, v in self.conf.items() if _SECRET.search(k) or _SECRET.search(v)}

    def redact(self, text: str) -> str:
        """Strike the settings' secrets out of a text that Spark printed."""
        values = list(self.secret_conf().values())
        passwords = [word for value in (*values, self.master) for word in uri_passwords(value)]
        for secret in filter(None, (*values, *passwords)):
            text = text.replace(secret, MASK)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig:
    """Section ``[replay]``."""

    shards: int = 4
    batch_seconds: int = 30
    consistency: Consistency = "shard"
    on_error: OnError = "park"
    on_conflict: OnConflict = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingConfig:
    """Section ``[housekeeping]``."""

    foreign_key_indexes: bool = True
    #: How long bindings and the history of parked tables and DDL are kept.
    history: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlConfig:
    """Section ``[ddl]``."""

    #: What is applied besides tables and what they need: some of DDL_KINDS.
    include: tuple[str, ...] = ()
    #: Whether replay copies tables again whose rows DDL left different from the source's.
    resync: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One section ``[sources.NAME]``."""

    name: str
    dsn: Dsn
    slot: str
    #: The role that owns its schemas on the target; empty: named after the source.
    owner: str = ""
    schema: SchemaTemplate
    selection: TableSelection
    #: Receiving pauses while the spool holds so many bytes of this source. None: no limit.
    max_spool: int | None = None
    #: What to do about NaN and Infinity, which wal2json before 2.6 prints as null.
    special_floats: SpecialFloats = "mark"
    #: Whether functions, operators and what calls them come with the tables: whoever may change the
    #: source's schema then runs SQL on the target.
    trust_code: bool = False
    #: What the source is, and which output plugin decodes its changes.
    kind: SourceKind = "postgres"
    plugin: Plugin = "wal2json"

    @property
    def endpoint(self) -> Endpoint:
        """The source as a database to connect to."""
        return Endpoint(Side.SOURCE, self.name, self.dsn)

    @property
    def origin(self) -> str:
        """The replication origin on the target, named like the slot."""
        return self.slot

    @property
    def owner_role(self) -> str:
        """The role that owns its schemas on the target, where there is one."""
        return self.owner or default_owner(self.name)


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
