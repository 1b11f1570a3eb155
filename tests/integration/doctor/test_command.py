"""``pgrepl doctor`` as a person runs it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.database import Database
from tests.support.program import run_pgrepl, write_config


def doctor(patient, *arguments, **options):
    # Without --no-spark: on a local master nobody waits for Spark unless it is asked for.
    return run_pgrepl("doctor", "--config", patient.config, *arguments, **options)


def run_psql(cluster, script):
    psql = subprocess.run(
        [
            cluster.binaries.program("psql"),
            *("-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", cluster.dsn()),
        ],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (psql.returncode, psql.stderr) == (0, "")


@pytest.fixture
def unprepared(admit):
    """A source and a target with much to fix, and names that must be quoted."""
    patient = admit(source_settings={"wal_level": "replica"})
    patient.source.execute(
        f"alter role {patient.role} noreplication",
        'create schema "It\'s; odd"',
        'create table "It\'s; odd"."Ta\\ble\n-- 1" (a int)',
        "alter table thing replica identity nothing",
        "alter table thing enable row level security",
        "create extension hstore",
        "alter table thing add h hstore",
    )
    patient.target.execute(
        f"revoke create on database {patient.target.name} from {patient.role}",
        f"revoke set on parameter session_replication_role from {patient.role}",
        f"revoke execute on function pg_replication_origin_create(text) from {patient.role}",
        f"create schema {patient.source.name}_public",
    )
    return patient


def test_sound_patient_is_reported_as_lines_and_exits_zero(patient):
    done = doctor(patient)
    assert (done.returncode, done.stderr) == (0, "")
    assert any(
        line.startswith("ok ") and " wal-level " in line for line in done.stdout.splitlines()
    )
    assert done.stdout.isascii()


def test_json_holds_every_finding_with_its_remedy(unprepared):
    done = doctor(unprepared, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["exit_code"]) == (20, 20)
    findings = {
        (examination["name"], finding["check"]): finding
        for examination in report["examinations"]
        for finding in examination["findings"]
    }
    assert findings["shop", "wal-level"]["sql"] == ["ALTER SYSTEM SET wal_level = logical"]
    assert findings["shop", "wal-level"]["then"] == "restart the server"
    assert findings["target", "extensions"]["objects"] == ["hstore"]
    assert findings["here", "spark"]["status"] == "skipped"
    assert "--spark" in findings["here", "spark"]["message"]


def test_script_of_doctor_mends_everything_when_psql_runs_it(unprepared):
    script = doctor(unprepared, "--sql")
    assert script.returncode == 20
    run_psql(unprepared.source.cluster, script.stdout)
    unprepared.source.cluster.restart()
    assert unprepared.failing() == set()
    assert "-- Nothing to fix." in doctor(unprepared, "--sql").stdout


def test_only_the_sources_named_are_examined(patient):
    patient.other_sources = {"dead": "host=127.0.0.1 port=1 dbname=dead"}
    assert doctor(patient).returncode == 20
    done = doctor(patient, "shop")
    assert done.returncode == 0
    assert "dead" not in done.stdout


def test_failure_of_the_target_alone_exits_30(patient):
    patient.target.execute(f"revoke create on database {patient.target.name} from {patient.role}")
    assert doctor(patient).returncode == 30


def test_failure_of_this_machine_alone_exits_10(patient, tmp_path):
    assert doctor(patient, env={"JAVA_HOME": str(tmp_path)}).returncode == 10


def test_unknown_source_is_a_usage_error(patient):
    done = doctor(patient, "shp")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'error: there is no source "shp"' in done.stderr
    assert "hint: Sources there: shop." in done.stderr


@pytest.mark.parametrize("password", ["wr0ng", "p@ss w0rd's"])
def test_wrong_password_is_a_finding_that_does_not_show_it(patient, password):
    patient.source.execute(f"alter role {patient.role} password 'right'")
    dsn = patient.source.dsn(host="127.0.0.1", user=patient.role, password=password)
    patient.other_sources = {"locked": dsn}
    patient.source_options = 'schema = "{source}_{schema}"\n'
    done = doctor(patient, "locked", "--json")
    assert done.returncode == 20
    assert "password authentication failed" in done.stdout
    assert password not in done.stdout + done.stderr


def test_nothing_printed_anywhere_shows_a_password(patient):
    patient.source_options = 'schema = "{source}_{schema}"\n'
    patient.other_sources = {"other": patient.source.dsn(password="s3cr3t")}
    for form in ("--json", "--sql", "--verbose"):
        done = doctor(patient, form)
        assert "s3cr3t" not in done.stdout + done.stderr


def test_script_goes_to_the_server_that_the_environment_names(patient, tmp_path):
    # psql would take host and port of the source for the target, whose DSN names neither.
    cluster = patient.target.cluster
    patient.source.execute(
        "create table keyless (a int)", f"grant select on keyless to {patient.role}"
    )
    patient.target.execute(f"revoke create on database {patient.target.name} from {patient.role}")
    config = write_config(
        tmp_path / "env.toml",
        f"dbname={patient.target.name} user={patient.role}",
        {"shop": patient.source.dsn(user=patient.role)},
    )
    env = {"PGHOST": str(cluster.socket_dir), "PGPORT": str(cluster.port)}
    arguments = ("doctor", "--no-spark", "--config", config)
    script = run_pgrepl(*arguments, "--sql", env=env)
    run_psql(patient.source.cluster, script.stdout)
    assert run_pgrepl(*arguments, env=env).returncode == 0


def test_script_reaches_a_database_of_any_name(source_cluster, target, tmp_path):
    odd = Database(source_cluster, 'it\'s "odd" \\ = db')
    source_cluster.create_database(odd.name)
    odd.execute("create table keyless (a int)")
    config = write_config(tmp_path / "odd.toml", target.dsn(), {"odd": odd.dsn()})
    arguments = ("doctor", "--no-spark", "--config", config)
    script = run_pgrepl(*arguments, "--sql")
    run_psql(source_cluster, script.stdout)
    report = json.loads(run_pgrepl(*arguments, "--json").stdout)
    odd.drop()
    assert report["exit_code"] == 0, report


def test_names_cannot_play_with_the_terminal_or_the_lines(patient):
    patient.source.execute('create table "\x1b]0;title\x07\nfailure" (a int)')
    done = doctor(patient)
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert all(
        line.startswith(("ok", "warning", "failure  s", "skipped", " ")) for line in lines[:-1]
    )


def test_json_and_sql_exclude_each_other(patient):
    assert doctor(patient, "--json", "--sql").returncode == 2


def test_fix_runs_the_remedies_as_the_role_it_is_given(unprepared):
    done = doctor(unprepared, "--fix", "--as", "user=postgres", "--yes")
    assert "ALTER SYSTEM SET wal_level = logical" in done.stderr
    unprepared.source.cluster.restart()
    assert unprepared.failing() == set()


def test_killed_between_remedies_the_next_run_gives_the_rest(unprepared):
    remedies = ("--fix", "--as", "user=postgres", "--yes")
    done = doctor(unprepared, *remedies, env={"PGREPL_FAILPOINT": "doctor.statement_run:kill:3"})
    assert done.returncode == -9
    assert unprepared.failing() != set()
    doctor(unprepared, *remedies)
    unprepared.source.cluster.restart()
    assert unprepared.failing() == set()


def test_fix_asks_and_so_needs_a_terminal_or_yes(patient):
    patient.source.execute(f"alter role {patient.role} noreplication")
    done = doctor(patient, "--fix", "--as", "user=postgres")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert "replication-privilege" in patient.failing()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--fix",), "--fix needs --as"),
        (("--as", "user=postgres"), "--as goes with --fix"),
        (("--fix", "--as", "user=postgres", "--sql"), "exclude each other"),
        (("--fix", "--as", "no dsn", "--yes"), "--as:"),
    ],
)
def test_fix_refuses_what_it_cannot_mean(patient, arguments, reason):
    done = doctor(patient, *arguments)
    assert done.returncode == 2
    assert reason in done.stderr


def test_role_on_another_server_fixes_one_server_only(patient):
    patient.source.execute(f"alter role {patient.role} noreplication")
    patient.target.execute(f"revoke create on database {patient.target.name} from {patient.role}")
    done = doctor(patient, "--fix", "--as", "host=elsewhere user=postgres", "--yes")
    assert done.returncode == 2
    assert "names one server (host), and several are to be fixed" in done.stderr


def test_role_without_the_right_to_fix_is_told_so(patient):
    patient.source.execute(f"alter role {patient.role} noreplication")
    done = doctor(patient, "--fix", "--as", f"user={patient.role}", "--yes")
    assert done.returncode == 20
    assert "cannot run the remedy" in done.stderr
