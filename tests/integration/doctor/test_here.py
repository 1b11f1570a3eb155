"""Each check of this machine."""

from __future__ import annotations

import os
import shutil

import pytest

from pgrepl.doctor import Area, Status
from pgrepl.doctor.machine import check_java, check_pg_dump

HERE = Area.HERE


def test_schemas_that_clash_are_found_once_their_names_are_known(patient, make_database):
    # Database "x" with schema "1_public" and database "x_1" with schema "public".
    name = patient.source.name
    other = make_database(patient.source.cluster, prefix=name)
    suffix = other.name.removeprefix(f"{name}_")
    patient.source.execute(
        f'create schema "{suffix}_public"', f'create table "{suffix}_public".t (id int primary key)'
    )
    other.execute("create table t (id int primary key)")
    patient.other_sources = {"other": other.dsn()}
    finding = patient.finding(HERE, "target-schemas")
    assert finding.status is Status.FAILURE
    assert f'would both become "{other.name}_public"' in finding.message


def test_schema_whose_name_becomes_too_long(patient):
    long = "x" * 60
    patient.source.execute(f"create schema {long}", f"create table {long}.t (id int primary key)")
    finding = patient.finding(HERE, "target-schemas")
    assert (finding.status, "limit is 63" in finding.message) == (Status.FAILURE, True)


def test_password_in_a_file_that_others_can_read(patient):
    patient.source_options = 'schema = "{source}_{schema}"\n'
    patient.other_sources = {"other": patient.source.dsn(password="s3cr3t")}
    finding = patient.finding(HERE, "config-file")
    assert finding.status is Status.WARNING
    assert "s3cr3t" not in finding.message
    os.chmod(patient.folder / "pgrepl.toml", 0o600)  # noqa: PTH101
    assert patient.finding(HERE, "config-file").status is Status.OK


def test_java_of_this_machine_is_found():
    assert check_java(os.environ).status is Status.OK


def test_java_home_that_leads_nowhere(tmp_path):
    finding = check_java({"JAVA_HOME": str(tmp_path)})
    assert (finding.status, "does not run" in finding.message) == (Status.FAILURE, True)


def test_no_java_at_all(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_java({}).message == "there is no Java runtime"


@pytest.mark.parametrize(
    ("printed", "status"),
    [
        ('openjdk version "1.8.0_402"', Status.FAILURE),
        ('openjdk version "11.0.22" 2024-01-16', Status.FAILURE),
        ('openjdk version "17.0.1" 2021-10-19', Status.OK),
        ('java version "21" 2023-09-19 LTS', Status.OK),
        ("gibberish", Status.FAILURE),
    ],
)
def test_java_must_be_17_or_newer(tmp_path, printed, status):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{shutil.which('sh')}\necho '{printed}' >&2\n")
    java.chmod(0o755)
    assert check_java({"JAVA_HOME": str(tmp_path)}).status is status


def test_clock_of_this_machine_agrees_with_its_own_servers(patient):
    assert patient.finding(HERE, "clock").status is Status.OK


def test_pg_dump_must_be_as_new_as_the_newest_source():
    assert check_pg_dump([150000]).status is Status.OK
    finding = check_pg_dump([150000, 990001])
    assert (finding.status, "version 99" in finding.message) == (Status.FAILURE, True)
