"""How a dump is sorted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.errors import UnknownStatementError
from pgrepl.basebackup.schema.needed_objects import NeededObject
from pgrepl.basebackup.schema.plan import SchemaPlan
from pgrepl.basebackup.schema.source_objects import SourceObjects
from pgrepl.basebackup.schema.statements.classify import sift
from pgrepl.basebackup.schema.views import Views
from pgrepl.syntax.parse import parse
from pgrepl.syntax.remap import SchemaMap

NOTHING = SourceObjects(tables=[], other_tables=[], needed=[], views=Views(), members=[], unseen=[])


def sifted(before: str = "", after: str = "", objects: SourceObjects = NOTHING) -> SchemaPlan:
    dump = Dump(parse(before), parse(after))
    return sift(dump, objects, SchemaMap({}), with_all_indexes=False)


@pytest.mark.parametrize(("before", "after"), [("notify x", ""), ("", "notify x")])
def test_statement_of_no_known_kind_is_an_error_that_does_not_blame_the_patterns(before, after):
    with pytest.raises(UnknownStatementError, match=r"does not know .*: NotifyStmt") as caught:
        sifted(before, after)
    assert "report" in caught.value.hint


def test_comment_on_no_known_kind_of_object_is_named():
    plan = sifted("comment on access method heap2 is 'x'", "comment on cast (a.b as a.c) is 'x'")
    assert [(item.kind, item.name) for item in plan.left_out] == [
        ("comment", "on access method heap2"),
        ("comment", "on cast"),
    ]


def test_comment_on_what_is_named_itself_is_not_named_again():
    assert sifted("comment on foreign table a.b is 'x'", "comment on rule r on a.b is 'x'") == (
        SchemaPlan()
    )


def test_check_of_a_domain_that_is_not_valid_comes_behind_the_keys_and_before_its_comment():
    domain = NeededObject("pg_type", 1, "a", "d", (), None, True, None)
    plan = sifted(
        "create domain a.d as integer; comment on constraint c on domain a.d is 'x'",
        "alter domain a.d add constraint c check (value > 0) not valid",
        replace(NOTHING, needed=[domain]),
    )
    assert [(step.phase, step.sql.split()[0]) for step in plan.steps] == [
        ("property", "ALTER"),
        ("property", "COMMENT"),
    ]
