"""Generated columns that pgoutput does not send and the target does not compute are named."""

from __future__ import annotations

import pytest

from pgrepl.doctor import Area, Status
from tests.support.observing.patient import Patient


@pytest.fixture
def patient(source, bare_target, tmp_path):
    """Return a source whose texts are changed to upper case by other rules than the target's."""
    source.make_anew("UTF8", "C.UTF-8")
    made = Patient(source, bare_target, tmp_path, source_options='plugin = "pgoutput"\n')
    source.execute(
        "create function twice(int) returns int immutable language sql as 'select $1 * 2'",
        "create table g (id int primary key, b text,"
        " up text generated always as (upper(b)) stored,"
        " alike text generated always as (b || '-') stored,"
        " coded int generated always as (twice(id)) stored)",
        f"grant select on g to {made.role}",
    )
    yield made
    made.discharge()


def test_columns_that_would_have_to_be_sent_are_a_warning(patient):
    finding = patient.finding(Area.SOURCE, "generated-columns")
    if patient.source.value("select current_setting('server_version_num')::int >= 180000"):
        assert finding.status is Status.OK
        return
    assert finding.status is Status.WARNING
    assert finding.objects == (
        "public.g.up (the locale of the source)",
        "public.g.coded (code of the source)",
    )
    assert "parked" in finding.message


@pytest.mark.parametrize(
    "options",
    [
        'plugin = "wal2json"\n',
        'plugin = "pgoutput"\ntrust_code = true\n',
        'plugin = "pgoutput"\nrules = [{ tables = ["public.g"], omit = ["up", "coded"] }]\n',
    ],
)
def test_nothing_is_said_where_they_are_sent_computed_or_omitted(patient, options):
    patient.source_options = options
    assert patient.finding(Area.SOURCE, "generated-columns").status is Status.OK


def test_target_of_the_same_locale_computes_what_is_no_code(patient):
    patient.target.make_anew("UTF8", "C.UTF-8")
    patient.source.execute("alter table g drop coded")
    assert patient.finding(Area.SOURCE, "generated-columns").status is Status.OK
