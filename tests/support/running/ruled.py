"""A source whose columns are masked on their way, and what must be on its target then."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.run import copy_source
from pgrepl.config.model import Config
from pgrepl.config.naming import TablePattern, TableSelection
from pgrepl.config.rules import RuleConfig, Rules
from pgrepl.ddl_capture import Applier, install
from pgrepl.replayer import SourceResult
from pgrepl.resync import Resyncer
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.verify import VerifyOptions, VerifyReport, verify_source
from tests.support.database import Database
from tests.support.ddl.own_names import own_names
from tests.support.observing.verifying import Quiet
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import QUICK, Pipeline

#: Few changes are applied by the driver, with the code of Spark's tasks and without Spark.
HERE = replace(QUICK, driver_changes=1 << 20)
SALT = "salt-of-the-tests-0123456789"


def rule(*tables: str, **masks: Any) -> RuleConfig:
    return RuleConfig(tables=tuple(map(TablePattern, tables)), **masks)


@dataclass
class RuledPipeline(Pipeline):
    """A pipeline whose source has rules; DDL is captured, and tables that are due are copied."""

    rules: Sequence[RuleConfig] = field(default_factory=list)
    #: The tables that the patterns take in; None: all.
    only: str | None = None

    def begin(self) -> None:
        """Capture DDL, and copy."""
        install(self.config.sources[self.source.name])
        self.copy()

    @property
    def config(self) -> Config:
        config = super().config
        name = self.source.name
        source = replace(config.sources[name], rules=Rules(tuple(self.rules)))
        if self.only is not None:
            source = replace(source, selection=TableSelection.of([self.only]))
        return replace(config, sources={name: source})

    def copy(self) -> None:
        config = self.config
        copy_source(config, config.sources[self.source.name], CopyOptions(), Recorder())

    def follow(self) -> None:
        """Receive and replay, DDL too, and copy what is due."""
        self.ddl = Applier(self.config)
        self.resync = Resyncer(self.config, interval_s=0.0, backoff_s=0.0)
        self.apply(HERE)

    def replay_ddl(self) -> SourceResult:
        """Replay what is spooled, DDL too, whatever comes of it."""
        self.ddl = Applier(self.config)
        return self.replay(HERE)

    def copy_again(self, table: str, way: WayAsked = "auto") -> None:
        config = self.config
        options = ResyncOptions(tables=TableSelection.of([table]), way=way, wait_s=60)
        name = self.source.name
        resync_tables(
            config,
            config.sources[name],
            options,
            Recorder(),
            lambda copied: TableCopies(config).apply_waiting(
                name, [(table.schema_name, table.table_name) for table in copied]
            ),
        )

    def copy_again_in_chunks(
        self, table: str, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Copy a table in chunks, while all else goes on."""
        with ThreadPoolExecutor(1) as pool:
            copying = pool.submit(self.copy_again, table, "chunked")
            while not copying.done():
                meanwhile()
                self.follow()
            copying.result()

    def verify(self) -> VerifyReport:
        config = self.config
        return verify_source(config, config.sources[self.source.name], VerifyOptions(), Quiet())

    def masked_differences(self, schema: str) -> list[str]:
        """Return the tables whose rows are not those of the source with the rules applied."""
        with own_names(self.target):
            return list(self._masked_differences(schema))

    def _masked_differences(self, schema: str) -> Iterator[str]:
        for (table,) in self.source.rows(
            "select relname::text from pg_class where relkind = 'r'"
            f" and relnamespace = '{schema}'::regnamespace order by 1"
        ):
            here = _rows(self.target, (self.schema(schema), table))
            rules = self.config.sources[self.source.name].rules
            there = _rows(self.source, (schema, table), rules.where(schema, table) or "true")
            masks = rules.masks_of(schema, table)
            if sorted(here) != sorted(_masked(row, masks) for row in there):
                yield table


def _rows(database: Database, table: tuple[str, str], where: str = "true") -> list[str]:
    with database.connect(options="-c search_path=pg_catalog") as connection:
        query = SQL("select to_json(t)::text from only {} t where ({}\n)").format(
            Identifier(*table), SQL(where)
        )
        rows = (json.loads(text) for (text,) in connection.execute(query))
        return [json.dumps(row, sort_keys=True) for row in rows]


def _masked(text: str, masks: Mapping[str, Any]) -> str:
    row = json.loads(text)
    for name, mask in masks.items():
        if mask.kind == "omit":
            row.pop(name, None)
        if row.get(name) is None:
            continue
        if mask.kind == "null":
            row[name] = None
        elif mask.kind == "constant":
            # A number as JSON has it.
            is_text = isinstance(row[name], str)
            row[name] = mask.text if is_text else json.loads(mask.text)
        else:
            digest = hashlib.sha256(SALT.encode() + row[name].encode())
            row[name] = digest.hexdigest()
    return json.dumps(row, sort_keys=True)


def leaks(database: Database, *secrets: str) -> list[str]:
    """Return every table, in any schema, that shows one of some texts, or its bytes."""
    return [table for table, text in _contents(database) if any(_shows(text, s) for s in secrets)]


def _shows(text: str, secret: str) -> bool:
    return secret in text or secret.encode().hex() in text


def _contents(database: Database) -> Iterator[tuple[str, str]]:
    with database.connect(options="-c search_path=pg_catalog") as connection:
        tables = connection.execute(
            "select n.nspname, c.relname from pg_class c join pg_namespace n"
            " on n.oid = c.relnamespace where c.relkind in ('r', 'm')"
            " and c.relname not in ('pg_statistic', 'pg_largeobject') or c.relname = 'pg_stats'"
        ).fetchall()
        for schema, name in tables:
            query = SQL("select t::text from {} t").format(Identifier(schema, name))
            yield (
                f"{schema}.{name}",
                "\n".join(text or "" for (text,) in connection.execute(query)),
            )
