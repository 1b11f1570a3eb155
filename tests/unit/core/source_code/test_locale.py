"""Whether a value may differ between databases of two locales."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture.policy.judge import Literals
from pgrepl.ddl_capture.policy.literals import reason_not_to_compute
from pgrepl.source_code.locale import Dependence, reason_of_locale

PLAIN = Dependence(is_collated=False, is_textual=False)
TEXT = Dependence(is_collated=False, is_textual=True)
COLLATED = Dependence(is_collated=True, is_textual=True)
HERE = "UTF8/c/C/C"
GERMAN = "UTF8/c/de_DE/de_DE"
LATIN = "LATIN1/c/C/C"


@pytest.mark.parametrize(
    ("dependence", "source", "is_doubted"),
    [
        (COLLATED, HERE, False),
        (COLLATED, GERMAN, True),
        (TEXT, GERMAN, False),
        (TEXT, LATIN, True),
        (PLAIN, LATIN, False),
        # An older capture does not tell it.
        (TEXT, None, True),
    ],
)
def test_value_differs_by_what_it_depends_on(dependence, source, is_doubted):
    assert (reason_of_locale(dependence, source, HERE) is not None) == is_doubted


@pytest.mark.parametrize(
    ("readers", "is_doubted"),
    [((), False), (("timestamptz_in",), False), (("regclassin",), True)],
)
def test_generated_column_is_not_computed_from_what_each_server_reads_itself(readers, is_doubted):
    literals = Literals(frozenset(readers), PLAIN, is_converted=False, locale=HERE)
    assert (reason_not_to_compute(literals, HERE) is not None) == is_doubted
