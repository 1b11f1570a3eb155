"""Each check of a source, with the broken state really produced, and fixed by its own remedy."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgrepl.ddl_capture import install_script, uninstall_script
from pgrepl.doctor import Area, Status
from pgrepl.throwaway import Cluster
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.waiting import wait_until

SOURCE = Area.SOURCE
OLDER = Path(__file__).parents[2] / "support" / "sql" / "older_capture.sql"


def assert_broken_then_mended(patient, check, message):
    broken = patient.finding(SOURCE, check)
    assert broken.status is Status.FAILURE
    assert message in broken.message
    patient.fix(SOURCE, broken)
    assert patient.finding(SOURCE, check).status is Status.OK
    return broken


def test_sound_source_and_target_have_no_failure(patient):
    assert patient.failing() == set()


def test_server_that_does_not_answer_is_a_finding_not_an_error(patient, binaries):
    with Cluster(binaries=binaries) as gone:
        patient.other_sources = {"gone": gone.dsn("shop2")}
    examinations = {e.name: e for e in patient.examine()}
    (finding,) = examinations["gone"].findings
    assert (finding.check, finding.status) == ("reachable", Status.FAILURE)
    assert not examinations["shop"].has_failed


def test_role_without_replication(patient):
    patient.source.execute(f"alter role {patient.role} noreplication")
    assert_broken_then_mended(patient, "replication-privilege", "no REPLICATION")


def test_plugin_cannot_be_tried_before_the_role_may_replicate(patient):
    patient.source.execute(f"alter role {patient.role} noreplication")
    assert patient.finding(SOURCE, "plugin").status is Status.SKIPPED


def test_table_and_sequence_that_cannot_be_read(patient):
    patient.source.execute(
        "create schema inner_1", "create table inner_1.t (id serial primary key)"
    )
    broken = assert_broken_then_mended(patient, "select-privilege", "may not read inner_1.t")
    assert set(broken.objects) == {"inner_1.t", "inner_1.t_id_seq"}


MAKES = (
    "create table public.later (id serial primary key)",
    "create schema brand_new",
    "create table brand_new.later (id serial primary key)",
)


@pytest.fixture
def owner(patient):
    """A role that owns a replicated table and makes others later."""
    name = f"{patient.role}_owner"
    patient.source.execute(
        f"create role {name}",
        f"grant create on database {patient.source.name} to {name}",
        f"grant create on schema public to {name}",
        f"alter table thing owner to {name}",
    )
    yield name
    patient.source.execute(f"drop owned by {name}", f"drop role {name}")


def make_later(patient, owner):
    with patient.source.connect() as connection:
        connection.execute(f"set role {owner}".encode())
        for statement in MAKES:
            connection.execute(statement.encode())


def test_tables_of_tomorrow_can_be_read_after_the_remedy(patient, owner):
    broken = patient.finding(SOURCE, "future-tables")
    assert broken.status is Status.WARNING
    assert broken.is_in_script
    assert owner in broken.message
    assert f'GRANT pg_read_all_data TO "{patient.role}"' in broken.remedy.then
    patient.fix(SOURCE, broken)
    assert patient.finding(SOURCE, "future-tables").status is Status.OK
    make_later(patient, owner)
    assert patient.finding(SOURCE, "select-privilege").status is Status.OK


def test_role_that_reads_everything_reads_tables_of_tomorrow(patient, owner):
    patient.source.execute(f"grant pg_read_all_data to {patient.role}")
    assert patient.finding(SOURCE, "future-tables").status is Status.OK
    make_later(patient, owner)
    assert patient.finding(SOURCE, "select-privilege").status is Status.OK


def test_schemas_that_are_excluded_are_not_opened_for_tomorrow(patient, owner):
    patient.source_options = 'exclude = ["brand_new.*"]\n'
    broken = patient.finding(SOURCE, "future-tables")
    assert all('IN SCHEMA "public"' in statement for statement in broken.remedy.sql)
    patient.fix(SOURCE, broken)
    assert patient.finding(SOURCE, "future-tables").status is Status.OK
    make_later(patient, owner)
    assert patient.finding(SOURCE, "select-privilege").status is Status.OK
    patient.source_options = ""
    closed = patient.finding(SOURCE, "select-privilege").objects
    assert set(closed) == {"brand_new.later", "brand_new.later_id_seq"}


def test_patterns_that_name_tables_need_nothing_for_tomorrow(patient, owner):
    patient.source_options = 'tables = ["public.thing"]\n'
    assert patient.finding(SOURCE, "future-tables").status is Status.OK
    assert owner


def test_row_security_that_hides_rows(patient):
    patient.source.execute("alter table thing enable row level security")
    assert_broken_then_mended(patient, "row-security", "public.thing")


@pytest.mark.parametrize(
    ("statements", "reason", "remedy"),
    [
        (["create table {t} (a int)"], "no primary key", "FULL"),
        (
            ["create table {t} (a int not null unique, b int)"],
            "no primary key",
            'USING INDEX "odd Table_a_key"',
        ),
        (["create table {t} (a int unique)"], "no primary key", "FULL"),
        (
            ["create table {t} (a int not null)", "create unique index on {t} (a) where a > 0"],
            "no primary key",
            "FULL",
        ),
        (
            ["create table {t} (a int not null)", "create unique index on {t} ((a + 1))"],
            "no primary key",
            "FULL",
        ),
        (["create table {t} (a int primary key deferrable)"], "deferrable primary key", "FULL"),
        (
            ["create table {t} (a int primary key)", "alter table {t} replica identity nothing"],
            "identity NOTHING",
            "DEFAULT",
        ),
        (
            [
                "create table {t} (a int not null, b int not null)",
                "create unique index spare on {t} (a)",
                "create unique index used on {t} (b)",
                "alter table {t} replica identity using index used",
                "drop index used",
            ],
            "its identity index does not exist",
            'USING INDEX "spare"',
        ),
    ],
    ids=lambda value: None if isinstance(value, list) else value.replace(" ", "-"),
)
def test_table_whose_updates_would_vanish(patient, statements, reason, remedy):
    patient.source.execute(*(s.format(t='"odd Table"') for s in statements))
    patient.source.execute(f"grant select on all tables in schema public to {patient.role}")
    broken = assert_broken_then_mended(
        patient, "replica-identity", f'public."odd Table" ({reason})'
    )
    assert broken.remedy is not None
    assert broken.remedy.sql == (f'ALTER TABLE "public"."odd Table" REPLICA IDENTITY {remedy}',)


def test_partitions_are_judged_by_their_own_identity_and_selected_by_their_root(patient):
    patient.source.execute(
        "create schema parts",
        "create table measure (at date) partition by range (at)",
        "create table parts.measure_1 partition of measure default",
        f"grant usage on schema parts to {patient.role}",
        f"grant select on all tables in schema public, parts to {patient.role}",
    )
    patient.source_options = 'tables = ["public.measure"]\n'
    broken = assert_broken_then_mended(patient, "replica-identity", "parts.measure_1")
    assert broken.objects == ("parts.measure_1 (no primary key)",)


def test_append_only_tables_may_lack_an_identity(patient):
    patient.source.execute(
        "create table audit (at timestamptz, what text)",
        "create table measure (at date) partition by range (at)",
        "create table measure_1 partition of measure default",
        f"grant select on all tables in schema public to {patient.role}",
    )
    assert patient.finding(SOURCE, "replica-identity").status is Status.FAILURE
    patient.source_options = 'append_only = ["public.aud*", "public.measure"]\n'
    finding = patient.finding(SOURCE, "replica-identity")
    assert finding.status is Status.OK
    assert finding.objects == ("public.audit", "public.measure_1")


def test_unlogged_table_is_a_warning_with_both_ways_out(patient):
    patient.source.execute(
        "create unlogged table cache (k int)", f"grant select on cache to {patient.role}"
    )
    finding = patient.finding(SOURCE, "unlogged-tables")
    assert (finding.status, finding.objects) == (Status.WARNING, ("public.cache",))
    assert finding.remedy is not None
    assert "exclude" in (finding.remedy.then or "")
    assert patient.failing() == set()


def test_capture_of_ddl_is_looked_at(patient):
    assert patient.finding(SOURCE, "ddl-capture").status is Status.OK
    for statements in install_script(patient.role):
        patient.source.execute(*(statement.as_string() for statement in statements))
    finding = patient.finding(SOURCE, "ddl-capture")
    assert (finding.status, finding.message) == (Status.OK, "DDL is captured")
    patient.source.execute("create publication everything for all tables")
    finding = patient.finding(SOURCE, "ddl-capture")
    assert (finding.status, "everything" in finding.message) == (Status.WARNING, True)
    patient.source.execute("select pgrepl.switch(false)")
    finding = patient.finding(SOURCE, "ddl-capture")
    assert (finding.status, "switched off" in finding.message) == (Status.WARNING, True)
    patient.source.execute("alter event trigger pgrepl_sql_drop_1 enable always")
    finding = patient.finding(SOURCE, "ddl-capture")
    assert (finding.status, "incomplete" in finding.message) == (Status.FAILURE, True)
    for statements in uninstall_script():
        patient.source.execute(*(statement.as_string() for statement in statements))
    patient.source.execute(OLDER.read_text(encoding="utf-8"))
    finding = patient.finding(SOURCE, "ddl-capture")
    assert (finding.status, "older version" in finding.message) == (Status.WARNING, True)


def test_patterns_that_match_nothing(patient):
    patient.source_options = 'tables = ["publik.*"]\n'
    finding = patient.finding(SOURCE, "tables")
    assert (finding.status, "no table matches" in finding.message) == (Status.FAILURE, True)


def test_tables_of_excluded_patterns_are_left_alone_with_their_sequences(patient):
    patient.source.execute("create table scratch (a serial)")
    assert patient.failing() == {"replica-identity", "select-privilege"}
    patient.source_options = 'exclude = ["public.scratch"]\n'
    assert patient.failing() == set()


def test_tables_of_extensions_are_left_alone(patient):
    patient.source.execute("create table member (a int)")
    assert patient.failing() == {"replica-identity", "select-privilege"}
    patient.source.execute("create extension hstore", "alter extension hstore add table member")
    assert patient.failing() == set()


def test_remedy_opens_no_table_that_was_left_out(patient):
    patient.source.execute(
        "create table salary (a int)", "create table open_to_all (a int primary key)"
    )
    patient.source_options = 'exclude = ["public.salary"]\n'
    assert_broken_then_mended(patient, "select-privilege", "open_to_all")
    may_read = f"select has_table_privilege('{patient.role}', 'salary', 'select')"
    assert patient.source.value(may_read) is False


def test_names_that_look_alike_are_told_apart(patient):
    patient.source.execute(
        'create schema "a.b"',
        "create schema a",
        'create table "a.b".c (x int)',
        'create table a."b.c" (x int primary key)',
        'alter table a."b.c" replica identity full',
        f'grant usage on schema "a.b", a to {patient.role}',
        f'grant select on "a.b".c, a."b.c" to {patient.role}',
    )
    broken = assert_broken_then_mended(patient, "replica-identity", '"a.b".c (no primary key)')
    assert broken.remedy is not None
    assert broken.remedy.sql == ('ALTER TABLE "a.b"."c" REPLICA IDENTITY FULL',)


def test_question_that_the_server_refuses_is_a_finding_of_its_own(admit):
    patient = admit(source_settings=LOGICAL_DECODING)
    patient.source.execute("revoke execute on function pg_control_system() from public")
    finding = patient.finding(SOURCE, "readable")
    assert (finding.status, "pg_control_system" in finding.message) == (Status.FAILURE, True)
    assert patient.finding(SOURCE, "reachable").status is Status.OK


def test_physical_slot_of_our_name(patient):
    patient.source_options = f"slot = '{patient.source.name}'\n"
    patient.source.execute(f"select pg_create_physical_replication_slot('{patient.source.name}')")
    finding = patient.finding(SOURCE, "slot")
    patient.source.execute(f"select pg_drop_replication_slot('{patient.source.name}')")
    assert (finding.status, "a physical slot" in finding.message) == (Status.FAILURE, True)


def test_last_wal_sender_may_be_our_own(admit):
    patient = admit(source_settings={**LOGICAL_DECODING, "max_wal_senders": "1"})
    patient.source.execute("select pg_create_logical_replication_slot('pgrepl_shop', 'wal2json')")
    program = patient.source.cluster.binaries.program("pg_recvlogical")
    receiver = subprocess.Popen(
        [program, "-d", patient.source.dsn(), "-S", "pgrepl_shop", "--start", "-f", "-"],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: "is in use" in patient.finding(SOURCE, "slot").message)
        assert patient.failing() == set()
    finally:
        receiver.terminate()
        receiver.wait()


def test_large_objects_are_a_warning(patient):
    patient.source.execute("select lo_create(0)")
    assert patient.finding(SOURCE, "large-objects").status is Status.WARNING


def test_database_in_sql_ascii(patient):
    name = f"{patient.source.name}_ascii"
    patient.source.execute(
        f"create database {name} template template0 encoding 'SQL_ASCII' locale 'C'"
    )
    patient.other_sources = {"plain": patient.source.cluster.dsn(name)}
    found = {
        finding.check: finding.status
        for examination in patient.examine()
        if examination.name == "plain"
        for finding in examination.findings
    }
    patient.source.execute(f"drop database {name}")
    assert found["encoding"] is Status.FAILURE


def test_old_plugin_warns_of_special_floats_where_there_are_float_columns(patient):
    plain = patient.finding(SOURCE, "special-floats")
    assert plain.status is Status.OK
    patient.source.execute("alter table thing add price numeric")
    finding = patient.finding(SOURCE, "special-floats")
    # wal2json 2.6 and newer print them.
    is_new = plain.message.endswith("carries NaN and Infinity")
    expected = (Status.OK, ()) if is_new else (Status.WARNING, ("public.thing",))
    assert (finding.status, finding.objects) == expected


def test_plugin_that_is_not_installed(patient, binaries):
    # The server looks for the plugin where this setting says.
    name = patient.source.name
    patient.source.execute(f"alter database {name} set dynamic_library_path = '/nonexistent'")
    finding = patient.finding(SOURCE, "plugin")
    assert finding.status is Status.FAILURE
    assert 'could not access file "wal2json"' in finding.message
    assert finding.remedy is not None
    package = f"postgresql-{binaries.version[0]}-wal2json"
    assert finding.remedy.shell == (f"apt-get install {package}",)


@pytest.mark.parametrize("setting", ["pgoutput", "'pgoutput, test_decoding, wal2json'"])
@pytest.mark.parametrize("may_read_setting", [True, False])
def test_plugin_that_the_server_does_not_allow(patient, binaries, setting, may_read_setting):
    if "output_plugin_libraries" not in binaries.settings:
        pytest.skip("this server is older than 15.19 and lets any plugin run")
    patient.source.execute(
        f"alter database {patient.source.name} set output_plugin_libraries = {setting}"
    )
    if may_read_setting:
        patient.source.execute(f"grant pg_read_all_settings to {patient.role}")
    broken = assert_broken_then_mended(patient, "plugin-allowed", "output_plugin_libraries")
    assert ("single quoted text" in broken.message) is ("," in setting)
    assert patient.finding(SOURCE, "plugin").status is Status.OK


def test_plugin_refused_by_the_setting_that_wins(patient, binaries):
    if "output_plugin_libraries" not in binaries.settings:
        pytest.skip("this server is older than 15.19 and lets any plugin run")
    patient.source.execute(
        "alter role all set output_plugin_libraries = pgoutput, wal2json",
        f"alter database {patient.source.name} set output_plugin_libraries = pgoutput",
    )
    finding = patient.finding(SOURCE, "plugin-allowed")
    patient.source.execute("alter role all reset output_plugin_libraries")
    assert finding.status is Status.FAILURE


def test_plugin_is_not_tried_where_it_is_not_allowed(patient, binaries):
    if "output_plugin_libraries" not in binaries.settings:
        pytest.skip("this server is older than 15.19 and lets any plugin run")
    patient.source.execute(f"alter role {patient.role} set output_plugin_libraries = pgoutput")
    assert patient.finding(SOURCE, "plugin").status is Status.SKIPPED


def test_server_as_packages_install_it(admit):
    patient = admit(source_settings={"wal_level": "replica"})
    broken = patient.finding(SOURCE, "wal-level")
    assert 'wal_level is "replica"' in broken.message
    patient.fix(SOURCE, broken)
    assert patient.finding(SOURCE, "wal-level").status is Status.FAILURE
    assert broken.remedy is not None
    assert broken.remedy.then == "restart the server"
    patient.source.cluster.restart()
    assert patient.finding(SOURCE, "wal-level").status is Status.OK


@contextmanager
def wal_sender(database):
    """Hold a WAL sender, as a physical standby would."""
    with psycopg.connect(database.dsn(replication="database"), autocommit=True) as connection:
        connection.execute("IDENTIFY_SYSTEM")
        yield


def test_slots_and_wal_senders_that_are_all_in_use(admit):
    few = {**LOGICAL_DECODING, "max_replication_slots": "1", "max_wal_senders": "1"}
    patient = admit(source_settings=few)
    patient.source.execute(f"grant pg_read_all_settings to {patient.role}")
    assert patient.failing() == set()
    patient.source.execute("select pg_create_logical_replication_slot('theirs', 'test_decoding')")
    with wal_sender(patient.source):
        assert patient.failing() == {"slots", "wal-senders"}
        for check in ("slots", "wal-senders"):
            patient.fix(SOURCE, patient.finding(SOURCE, check))
    patient.source.cluster.restart()
    with wal_sender(patient.source):
        assert patient.failing() == set()


def test_full_slots_do_not_matter_when_ours_is_there(admit):
    few = {**LOGICAL_DECODING, "max_replication_slots": "1"}
    patient = admit(source_settings=few)
    patient.source.execute("select pg_create_logical_replication_slot('pgrepl_shop', 'wal2json')")
    assert patient.finding(SOURCE, "slots").status is Status.OK
    assert "not in use" in patient.finding(SOURCE, "slot").message


def test_slot_that_was_lost(admit):
    little = {**LOGICAL_DECODING, "max_slot_wal_keep_size": "1MB"}
    patient = admit(source_settings=little)
    warning = patient.finding(SOURCE, "wal-keep-size")
    assert (warning.status, "only 1 MB" in warning.message) == (Status.WARNING, True)
    patient.source.execute("select pg_create_logical_replication_slot('pgrepl_shop', 'wal2json')")
    for _ in range(4):
        patient.source.execute("create table t ()", "drop table t", "select pg_switch_wal()")
    patient.source.execute("checkpoint")
    assert_broken_then_mended(patient, "slot", "is lost")


def test_limit_on_kept_wal_is_recommended(patient):
    assert patient.finding(SOURCE, "wal-keep-size").status is Status.WARNING


def test_slot_of_our_name_that_is_somebody_elses(patient):
    patient.source_options = f"slot = '{patient.source.name}'\n"
    patient.source.execute(
        f"select pg_create_logical_replication_slot('{patient.source.name}', 'test_decoding')"
    )
    finding = patient.finding(SOURCE, "slot")
    assert (finding.status, "plugin test_decoding" in finding.message) == (Status.FAILURE, True)


def test_open_transactions_that_block_a_new_slot(admit):
    prepared = {**LOGICAL_DECODING, "max_prepared_transactions": "2"}
    patient = admit(source_settings=prepared)
    assert patient.finding(SOURCE, "writers").status is Status.OK
    with psycopg.connect(patient.source.cluster.dsn()) as writer:
        writer.execute("select pg_current_xact_id()")
        pid = writer.info.backend_pid
        with psycopg.connect(patient.source.cluster.dsn(), autocommit=True) as other:
            other.execute("begin")
            other.execute("select pg_current_xact_id()")
            other.execute("prepare transaction 'left over'")
        finding = patient.finding(SOURCE, "writers")
        assert finding.status is Status.WARNING
        assert f"pid {pid}" in finding.message
        assert "prepared transaction 'left over'" in finding.message
        assert finding.remedy is not None
        assert set(finding.remedy.sql) == {
            f"SELECT pg_terminate_backend({pid})",
            "ROLLBACK PREPARED 'left over'",
        }
    with psycopg.connect(patient.source.cluster.dsn(), autocommit=True) as other:
        other.execute("rollback prepared 'left over'")


def test_standby_is_no_source(patient, binaries):
    with Cluster(binaries=binaries) as cluster:
        cluster.stop()
        (cluster.data / "standby.signal").touch()
        cluster.start()
        patient.other_sources = {"standby": cluster.dsn(user="postgres")}
        found = {
            finding.check: finding.status
            for examination in patient.examine()
            if examination.name == "standby"
            for finding in examination.findings
        }
    assert found["primary"] is Status.FAILURE
    assert found["plugin"] is Status.SKIPPED


def test_examination_leaves_no_slot_behind(patient):
    patient.examine()
    assert (
        patient.source.rows(
            "select from pg_replication_slots where slot_name like 'pgrepl_doctor%'"
        )
        == []
    )
