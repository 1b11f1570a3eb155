from __future__ import annotations

import pickle
import re

import pytest

from pgrepl import errors
from pgrepl.errors import PgreplError, Retry

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, PgreplError)
]


@pytest.mark.parametrize("kind", CLASSES)
def test_error_survives_pickling_with_message_and_hint(kind):
    copy = pickle.loads(pickle.dumps(kind("slot does not exist", hint="Create it.")))
    assert (type(copy), copy.message, copy.hint) == (kind, "slot does not exist", "Create it.")


@pytest.mark.parametrize("kind", CLASSES)
def test_error_is_exported_and_stands_in_the_tree_with_its_exit_code(kind):
    assert kind.__name__ in errors.__all__
    line = re.search(rf"\b{kind.__name__}\b +(\d*)", errors.__doc__ or "")
    assert line is not None
    # A class that adds no code of its own shows none: it has its parent's.
    parent_code = getattr(kind.__base__, "exit_code", None)
    assert line[1] == ("" if kind.exit_code == parent_code else str(kind.exit_code))


def test_exit_codes_are_those_of_the_contract():
    codes = {kind.exit_code for kind in CLASSES}
    assert codes == {1, 2, 10, 20, 30, 40, 50, 60, 70, 75, 130}


def test_only_what_passes_by_itself_is_retried():
    timed = {kind.__name__ for kind in CLASSES if kind.retry is Retry.TIMED}
    assert timed == {
        "SourceUnavailable",
        "SourceChanged",
        "SourceShutDown",
        "TargetLocked",
        "TargetUnavailable",
        "LagExceeded",
        "AlreadyRunning",
    }
