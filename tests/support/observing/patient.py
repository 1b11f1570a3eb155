"""A source and a target for the doctor: sound until a test breaks something on purpose."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pgrepl.config.file import load_config
from pgrepl.doctor import Area, Examination, Finding, Status, examine
from tests.support.database import Database
from tests.support.program import write_config

#: What a role on the target needs, as doctor would print it.
ORIGIN_FUNCTIONS = """
    do $$ declare f regprocedure; begin
        for f in select oid from pg_proc where proname like 'pg\\_replication\\_origin\\_%'
        loop execute format('grant execute on function %s to ROLE', f); end loop;
    end $$
"""


@dataclass
class Patient:
    """Databases with a role that has every privilege, and a table with a key."""

    source: Database
    target: Database
    folder: Path
    more_config: str = ""
    source_options: str = ""
    other_sources: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.role = f"{self.source.name}_role"
        for database in (self.source, self.target):
            database.execute(f"drop role if exists {self.role}", f"create role {self.role} login")
        self.source.execute(
            f"alter role {self.role} replication",
            "create table thing (id integer primary key, name text)",
            f"grant select on all tables in schema public to {self.role}",
        )
        self.target.execute(
            f"grant create on database {self.target.name} to {self.role}",
            f"grant set on parameter session_replication_role to {self.role}",
            ORIGIN_FUNCTIONS.replace("ROLE", self.role),
        )

    @property
    def config(self) -> Path:
        path = self.folder / "pgrepl.toml"
        path.touch(mode=0o644)
        write_config(
            path,
            self.target.dsn(user=self.role),
            {**self.other_sources, "shop": self.source.dsn(user=self.role)},
            self.more_config,
        )
        if self.source_options:
            path.write_text(path.read_text() + self.source_options)
        return path

    def examine(self) -> list[Examination]:
        config = load_config(self.config)
        return examine(config, list(config.sources.values()), os.environ, spark=False)

    def finding(self, area: Area, check: str) -> Finding:
        """Examine and return the finding of one check; of sources, the one called shop."""
        (found,) = (
            finding
            for examination in self.examine()
            if examination.area is area and examination.name in ("shop", "target", "here")
            for finding in examination.findings
            if finding.check == check
        )
        return found

    def failing(self) -> set[str]:
        """Return the checks that fail now."""
        return {
            finding.check
            for examination in self.examine()
            for finding in examination.findings
            if finding.status is Status.FAILURE
        }

    def fix(self, area: Area, finding: Finding) -> None:
        """Run a finding's own remedy as the superuser, as a DBA would."""
        assert finding.remedy is not None
        assert finding.remedy.sql
        database = self.source if area is Area.SOURCE else self.target
        database.execute(*finding.remedy.sql)

    def discharge(self) -> None:
        """Remove the role, which is not the database's but the cluster's."""
        for database in (self.source, self.target):
            database.execute(f"drop owned by {self.role}", f"drop role {self.role}")
