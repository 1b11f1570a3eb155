"""The main path from end to end, with what ``doctor --sql`` grants and nothing more.

Roles that can do nothing at first, passwords by SCRAM from a passfile, and TLS with a certificate
that is verified, on both sides.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgrepl.throwaway import Cluster, ServerBinaries
from tests.support.database import Database
from tests.support.machine.tls import Authority
from tests.support.program import run_pgrepl, write_config

#: Where the passwords are, to be found in no output.
PASSWORDS = {"replicator": "s3cret-on-the-source", "loader": "s3cret-on-the-target"}
SUPERUSER = "s3cret-of-the-superuser"

TABLES = (
    "create table customers (id bigint generated always as identity primary key, name text)",
    "create table orders (id serial primary key, customer bigint references customers)",
    "alter table orders add sum numeric",
    "create table visits (at date not null, id int, primary key (at, id)) partition by range (at)",
    "create table visits_old partition of visits for values from (minvalue) to ('2026-01-01')",
    "create table visits_new partition of visits for values from ('2026-01-01') to (maxvalue)",
    "insert into customers (name) select 'c' || i from generate_series(1, 200) i",
    "insert into orders (customer, sum) select 1 + i % 200, i from generate_series(1, 1000) i",
    "insert into visits select date '2025-12-01' + i, i from generate_series(1, 90) i",
)
CHANGES = (
    "insert into customers (name) values ('new')",
    "update orders set sum = sum + 1 where id % 3 = 0",
    "delete from orders where id % 10 = 0",
    # Its values are the source's secret: replay copies the table again.
    "alter table customers add luck double precision not null default random()",
    "create type mood as enum ('sad', 'happy')",
    "create table notes (id bigserial primary key, m mood)",
    "insert into notes (m) select 'happy' from generate_series(1, 50)",
    "create schema later",
    "create table later.things (id int primary key)",
    "insert into later.things select generate_series(1, 50)",
    "alter table later.things add luck double precision not null default random()",
    "alter table orders rename column sum to total",
    "truncate visits_old",
    "insert into visits values ('2026-05-05', 1)",
)


@dataclass
class Site:
    """A source and a target that only their administrators have prepared."""

    source: Database
    target: Database
    authority: Authority
    folder: Path

    def dsn(self, database: Database, user: str) -> str:
        return database.dsn(
            host="localhost",
            user=user,
            passfile=str(self.folder / "passfile"),
            sslmode="verify-full",
            sslrootcert=str(self.authority.certificate),
        )

    def write_config(self, name: str, *, source_user: str, **parameters: str) -> Path:
        source = psycopg.conninfo.make_conninfo(self.dsn(self.source, source_user), **parameters)
        return write_config(
            self.folder / name,
            self.dsn(self.target, "loader"),
            {"shop": source},
            '[spark]\nmaster = "local[2]"',
        )

    def run(self, *arguments: str | Path, config: Path | None = None, code: int = 0) -> str:
        config = config or self.folder / "pgrepl.toml"
        done = run_pgrepl(*arguments, "--config", config)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        for secret in (*PASSWORDS.values(), SUPERUSER):
            assert secret not in done.stdout + done.stderr
        return done.stdout

    def work(self, *statements: str) -> None:
        """Work on the source as the application does: as a role that owns its tables."""
        with self.source.connect() as connection:
            connection.execute("set role shop_owner")
            for statement in statements:
                connection.execute(statement.encode())


def run_psql(site: Site, script: str) -> None:
    """Run a script as the superuser; it goes to both servers by itself."""
    done = subprocess.run(
        [
            site.source.cluster.binaries.program("psql"),
            *("-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", site.source.dsn()),
        ],
        input=script,
        env={"PGPASSFILE": str(site.folder / "passfile")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def site(binaries: ServerBinaries, tmp_path: Path) -> Iterator[Site]:
    authority = Authority(tmp_path / "ca")
    authority.begin()
    with ExitStack() as stack:
        clusters = [stack.enter_context(Cluster(binaries=binaries)) for _ in range(2)]
        lines = []
        for cluster, (role, password) in zip(clusters, PASSWORDS.items(), strict=True):
            authority.close(cluster)
            cluster.create_database("shop")
            Database(cluster, "shop").execute(
                "revoke all on schema public from public",
                f"alter role postgres password '{SUPERUSER}'",
                f"create role {role} login password '{password}'",
            )
            lines += [
                f"localhost:{cluster.port}:*:{role}:{password}",
                f"localhost:{cluster.port}:*:postgres:{SUPERUSER}",
            ]
        passfile = tmp_path / "passfile"
        passfile.write_text("\n".join(lines) + "\n", encoding="utf-8")
        passfile.chmod(0o600)
        source, target = (Database(cluster, "shop") for cluster in clusters)
        made = Site(source, target, authority, tmp_path)
        made.source.execute(
            "create role shop_owner",
            "grant create on database shop to shop_owner",
            "alter schema public owner to shop_owner",
        )
        made.work(*TABLES)
        made.write_config("pgrepl.toml", source_user="replicator")
        yield made


def privileges(database: Database, role: str) -> dict[str, Any]:
    """Return what a role is and of what it is a member."""
    ((found,),) = database.rows(
        "select to_jsonb(r) || jsonb_build_object('roles', array(select g.rolname"
        " from pg_auth_members m join pg_roles g on g.oid = m.roleid where m.member = r.oid))"
        f" from pg_roles r where rolname = '{role}'"
    )
    return {key: value for key, value in found.items() if value not in (False, None, [])}


def test_main_path_needs_no_more_than_doctor_grants(site):
    # Nobody comes in without TLS, or believes a server that another authority signed for.
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        psycopg.connect(site.dsn(site.source, "replicator"), sslmode="disable")
    other = Authority(site.folder / "other")
    other.begin()
    strange = site.write_config(
        "strange.toml", source_user="replicator", sslrootcert=str(other.certificate)
    )
    assert "certificate verify failed" in site.run("doctor", "--no-spark", config=strange, code=20)

    run_psql(site, site.run("doctor", "--no-spark", "--sql", code=20))
    site.run("doctor", "--no-spark")
    assert "Nothing to" in site.run("doctor", "--no-spark", "--sql")
    assert privileges(site.source, "replicator").keys() & {"rolsuper", "roles"} == set()
    assert privileges(site.target, "loader")["roles"] == ["pgrepl_shop"]
    powers = {"rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"}
    assert privileges(site.target, "loader").keys() & powers == set()

    site.run("basebackup", "shop")
    run_psql(site, site.run("ddl", "install", "shop", "--sql"))
    site.run("ddl", "status", "shop")
    site.work(*CHANGES)
    site.run("receive", "shop", "--once")
    site.run("replay", "--once")
    site.run("verify", "shop")
    site.run("status")

    # All of it belongs to the role that can do nothing else, what came by DDL too.
    owners = site.target.rows(
        "select distinct pg_get_userbyid(owner) from (select relowner, relnamespace from pg_class"
        " union all select typowner, typnamespace from pg_type"
        " union all select nspowner, oid from pg_namespace) o (owner, place)"
        " where place in ('shop_public'::regnamespace, 'shop_later'::regnamespace)"
    )
    assert owners == [("pgrepl_shop",)]
    # Housekeeping made an index that the source lacks.
    assert site.target.value("select count(*) from pg_class where relname ~ '^pgrepl_fk_'") == 1
    assert site.target.value("select count(*) from shop_later.things") == 50

    site.run("resync", "shop", "*.*")
    site.work("update orders set total = 0", "create table last (id int primary key)")
    site.run("receive", "shop", "--once")
    site.run("replay", "--once")
    site.run("verify", "shop")

    superuser = site.write_config("superuser.toml", source_user="postgres")
    site.run("ddl", "uninstall", "shop", config=superuser)
    report = json.loads(site.run("drop", "shop", "--with-data", "--yes", "--json"))
    kept = {item["name"]: item["reason"] for item in report["kept"]}
    assert 'DROP ROLE "pgrepl_shop"' in kept["pgrepl_shop"]
    site.target.execute('DROP ROLE "pgrepl_shop"')
    assert not site.source.rows("select from pg_replication_slots")
    left = "select nspname from pg_namespace where nspname ~ '^(shop_|replication)'"
    assert not site.target.rows(left)
