"""Each check of the target, with the broken state really produced, and fixed by its own remedy."""

from __future__ import annotations

import pytest

from pgrepl.config.dsn import Side
from pgrepl.doctor import Area, Status
from pgrepl.postgres.connect import connect
from pgrepl.store.migrations import migrate
from pgrepl.throwaway import Cluster
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database

TARGET = Area.TARGET


def assert_broken_then_mended(patient, check, message):
    broken = patient.finding(TARGET, check)
    assert broken.status is Status.FAILURE
    assert message in broken.message
    patient.fix(TARGET, broken)
    assert patient.finding(TARGET, check).status is Status.OK
    return broken


def migrated(patient):
    endpoint = patient.target.endpoint(Side.TARGET)
    with connect(endpoint, "test") as connection:
        migrate(connection, endpoint)
    patient.target.execute(
        f"grant usage on schema replication to {patient.role}",
        f"grant select on all tables in schema replication to {patient.role}",
    )


def test_target_that_does_not_answer_does_not_keep_sources_from_being_examined(patient, binaries):
    with Cluster(binaries=binaries) as gone:
        pass
    sound = patient.target
    patient.target = Database(gone, "warehouse")
    examinations = {examination.name: examination for examination in patient.examine()}
    patient.target = sound
    assert [finding.check for finding in examinations["target"].findings] == ["reachable"]
    assert not examinations["shop"].has_failed


def test_role_that_may_not_make_schemas(patient):
    patient.target.execute(f"revoke create on database {patient.target.name} from {patient.role}")
    assert_broken_then_mended(patient, "create-privilege", "may not make schemas")


def test_role_that_may_not_use_origins(patient):
    patient.target.execute(
        f"revoke execute on function pg_replication_origin_xact_setup(pg_lsn, timestamptz)"
        f" from {patient.role}",
        f"revoke execute on function pg_replication_origin_create(text) from {patient.role}",
    )
    broken = assert_broken_then_mended(patient, "origin-functions", "may not call")
    assert len(broken.objects) == 2


def test_role_that_may_not_quiet_triggers(patient):
    patient.target.execute(f"revoke set on parameter session_replication_role from {patient.role}")
    assert_broken_then_mended(patient, "replica-role", "session_replication_role")


def test_target_that_is_read_only(patient):
    setting = f"alter role {patient.role} set default_transaction_read_only"
    patient.target.execute(f"{setting} = on")
    assert patient.finding(TARGET, "writable").status is Status.FAILURE
    patient.target.execute(f"{setting} = off")
    assert patient.finding(TARGET, "writable").status is Status.OK


def test_target_in_an_encoding_that_cannot_hold_every_character(patient):
    sound = patient.target
    latin = Database(sound.cluster, f"{sound.name}_latin1")
    sound.execute(f"create database {latin.name} template template0 encoding 'LATIN1' locale 'C'")
    patient.target = latin
    finding = patient.finding(TARGET, "encoding")
    patient.target = sound
    latin.drop()
    assert (finding.status, "LATIN1" in finding.message) == (Status.FAILURE, True)
    assert finding.remedy is not None
    assert finding.remedy.sql[0].endswith("ENCODING 'UTF8' LOCALE 'C'")


FEW_ORIGINS = {
    **LOGICAL_DECODING,
    "max_replication_slots": "1",
    "max_active_replication_origins": "1",
}


def test_origins_that_are_all_in_use(admit):
    patient = admit(target_settings=FEW_ORIGINS)
    assert patient.finding(TARGET, "origins").status is Status.OK
    patient.target.execute("select pg_replication_origin_create('theirs')")
    broken = patient.finding(TARGET, "origins")
    assert broken.status is Status.FAILURE
    patient.fix(TARGET, broken)
    patient.target.cluster.restart()
    assert patient.finding(TARGET, "origins").status is Status.OK


def test_origin_that_is_ours_already_needs_no_free_one(admit):
    patient = admit(target_settings=FEW_ORIGINS)
    patient.target.execute("select pg_replication_origin_create('pgrepl_shop')")
    assert patient.finding(TARGET, "origins").status is Status.OK


def test_more_tables_than_a_transaction_may_lock(admit):
    few = {**LOGICAL_DECODING, "max_locks_per_transaction": "10", "max_connections": "20"}
    patient = admit(target_settings=few)
    assert patient.finding(TARGET, "locks").status is Status.OK
    patient.source.execute(*(f"create table t{number} (id int)" for number in range(60)))
    broken = patient.finding(TARGET, "locks")
    assert broken.status is Status.WARNING
    assert "can lock 200 objects" in broken.message
    patient.fix(TARGET, broken)
    patient.target.cluster.restart()
    assert patient.finding(TARGET, "locks").status is Status.OK


def test_replication_schema_of_somebody_else(patient):
    patient.target.execute("create schema replication")
    assert_broken_then_mended(patient, "replication-schema", "pgrepl did not make")


def test_replication_schema_from_the_future(patient):
    migrated(patient)
    assert patient.finding(TARGET, "replication-schema").status is Status.OK
    patient.target.execute("insert into replication.schema_version values (999, 'x', '99')")
    finding = patient.finding(TARGET, "replication-schema")
    assert (finding.status, "version 999" in finding.message) == (Status.FAILURE, True)


def test_schema_that_is_in_the_way(patient):
    schema = f"{patient.source.name}_public"
    patient.target.execute(f"create schema {schema}")
    broken = assert_broken_then_mended(patient, "existing-schemas", schema)
    assert broken.remedy is not None
    assert broken.remedy.sql == (f'ALTER SCHEMA "{schema}" RENAME TO "{schema}_old"',)


@pytest.mark.parametrize(("owner", "status"), [("shop", Status.OK), ("crm", Status.FAILURE)])
def test_schema_that_pgrepl_made_is_in_the_way_of_other_sources_only(patient, owner, status):
    schema = f"{patient.source.name}_public"
    migrated(patient)
    patient.target.execute(
        "insert into replication.source (name, slot, dbname, system_identifier, timeline)"
        f" values ('{owner}', 'slot', 'db', 1, 1)",
        "insert into replication.target_schema (target_schema, source_id, source_schema)"
        f" select '{schema}', source_id, 'public' from replication.source",
        f"create schema {schema}",
    )
    assert patient.finding(TARGET, "existing-schemas").status is status


@pytest.mark.parametrize(
    ("extension", "statement"),
    [
        ("hstore", "alter table thing add h hstore"),
        ("citext", "create domain email as citext; alter table thing add e email[]"),
        ("btree_gist", "alter table thing add exclude using gist (id with =)"),
        ("pg_trgm", "create index on thing using gin (name gin_trgm_ops)"),
        ("ltree", "alter table thing add constraint c check (name::ltree <@ 'top'::ltree)"),
        (
            "uuid-ossp",
            "alter table thing add u text default uuid_generate_v4()::text",
        ),
    ],
)
def test_extension_that_a_table_needs(patient, extension, statement):
    patient.source.execute(f'create extension "{extension}"')
    assert patient.finding(TARGET, "extensions").status is Status.OK
    patient.source.execute(*statement.split("; "))
    broken = assert_broken_then_mended(patient, "extensions", extension)
    assert broken.objects == (extension,)


def test_target_that_is_its_own_source(patient):
    patient.other_sources = {"loop": patient.target.dsn()}
    finding = patient.finding(TARGET, "other-database")
    assert (finding.status, "loop" in finding.message) == (Status.FAILURE, True)


def test_extension_that_only_an_excluded_table_needs(patient):
    patient.source.execute(
        "create extension hstore",
        "create table other (id int primary key, h hstore)",
        "alter table thing add other_id int references other",
    )
    patient.source_options = 'exclude = ["public.other"]\n'
    assert patient.finding(TARGET, "extensions").status is Status.OK


def test_what_depends_on_sources_is_skipped_while_one_cannot_be_read(patient):
    patient.other_sources = {"dead": "host=127.0.0.1 port=1 dbname=dead"}
    for check in ("existing-schemas", "extensions", "other-database"):
        assert patient.finding(TARGET, check).status is Status.SKIPPED
    assert patient.finding(Area.HERE, "target-schemas").status is Status.SKIPPED


def test_schema_makes_room_under_a_name_that_is_free(patient):
    schema = f"{patient.source.name}_public"
    patient.target.execute(f"create schema {schema}", f"create schema {schema}_old")
    broken = assert_broken_then_mended(patient, "existing-schemas", schema)
    assert broken.remedy is not None
    assert broken.remedy.sql[0].endswith(f'"{schema}_old2"')


def test_table_of_somebody_else_in_a_replication_schema(patient):
    patient.target.execute(
        "create schema replication", "create table replication.schema_version (v text)"
    )
    assert_broken_then_mended(patient, "replication-schema", "pgrepl did not make")


CODE = (
    "create function app.f(int) returns int language sql immutable as 'select $1'",
    "create function app.g(int) returns int language plpgsql as 'begin return app.f($1); end'",
    "create function app.t() returns trigger language plpgsql as 'begin return new; end'",
    "create operator app.@@@ (function = app.f, rightarg = int)",
    "create type app.pair as (a int)",
    "create function app.to_pair(int) returns app.pair language sql as 'select row($1)::app.pair'",
    "create cast (int as app.pair) with function app.to_pair(int)",
    "create domain app.odd as int default app.f(1) check (app.f(value) > 0)",
    "create table app.t (id int default app.f(1), g int generated always as (app.f(id)) stored)",
    "insert into app.t values (5)",
    "alter table app.t add check (app.f(id) > 0), add check (operator(app.@@@) id > 0)",
    "create index on app.t (app.f(id))",
    "create unique index on app.t (id) where app.f(id) > 3",
    "create statistics app.s on (app.f(id)), g from app.t",
    "create trigger tr before insert on app.t for each row execute function app.t()",
    "create view app.v as select app.g(id) from app.t",
    "create policy p on app.t using (app.f(id) > 0)",
    "create table app.parts (id int) partition by range (id)",
    "alter table app.parts add g int generated always as (app.f(id)) stored",
    "alter table app.parts add check (app.f(id) > 0)",
    "create index on app.parts (app.f(id))",
    "create table app.parts_1 partition of app.parts default",
    # PostgreSQL's own, and an extension's, may stay.
    "create type app.span as range (subtype = int)",
    "create extension if not exists hstore",
    "create table app.fine (id serial primary key, at timestamptz default now())",
    "alter table app.fine add h hstore default hstore('a', 'b'), add check (abs(id) > 0)",
    "alter table app.fine add low int generated always as (abs(id)) stored",
    "create index on app.fine (abs(id))",
)


def test_code_of_a_source_is_named_and_its_statements_take_it_away(patient):
    patient.target.execute("create schema app", *CODE)
    migrated(patient)
    patient.target.execute(
        "insert into replication.source (name, slot, dbname, system_identifier, timeline)"
        " values ('shop', 'pgrepl_shop', 'x', 1, 1)",
        "insert into replication.target_schema select 'app', source_id, 'public'"
        " from replication.source",
        f"grant usage on schema replication to {patient.role}",
        f"grant select on all tables in schema replication to {patient.role}",
    )
    found = patient.finding(TARGET, "source-code")
    assert found.status is Status.FAILURE
    kinds = {name.split(" ")[0] for name in found.objects}
    assert kinds == {
        *("function", "operator", "cast", "domain", "default", "generated", "constraint"),
        *("index", "statistics", "trigger", "view", "policy"),
    }
    assert not any("fine" in name or "span" in name for name in found.objects)
    patient.fix(TARGET, found)
    assert patient.finding(TARGET, "source-code").status is Status.OK
    # Only code went: the rows, with what was computed, are there.
    assert patient.target.rows("select * from app.t") == [(5, 5)]
    assert patient.target.rows("select count(*) from app.parts") == [(0,)]
