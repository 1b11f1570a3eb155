"""The table of statement kinds fits the parser, and the rules of both sides fit the table."""

from __future__ import annotations

import pytest
from postgast import pg_query_pb2

from pgrepl.basebackup.schema.statements.skipped import LEFT_OUT
from pgrepl.ddl_capture.policy.rules import Included, skip_reason
from pgrepl.syntax.parse import parse
from pgrepl.syntax.statement_kinds import STATEMENT_KINDS, object_type_of, statement_of

FIELDS = {field.message_type.name: field.name for field in pg_query_pb2.Node.DESCRIPTOR.fields}


def empty_statement(kind: str) -> pg_query_pb2.Node:
    tree = pg_query_pb2.Node()
    getattr(tree, FIELDS[kind]).SetInParent()
    return tree


@pytest.mark.parametrize("kind", STATEMENT_KINDS)
def test_fields_of_a_kind_are_the_parsers(kind):
    known = STATEMENT_KINDS[kind]
    found, statement = statement_of(empty_statement(kind))
    assert found == kind
    assert known.object_type is None or hasattr(statement, known.object_type)
    relation, names = known.relation_in(statement), known.names_in(statement)
    assert relation is None or relation.DESCRIPTOR.name == "RangeVar"
    assert names is None or len(names) == 0
    assert known.verb is None or known.object_type is not None
    # What is read in a dump is in a catalogue, or its object type tells in which.
    assert known.relation is None or known.catalog is not None


@pytest.mark.parametrize("kind", STATEMENT_KINDS)
def test_every_kind_has_a_rule_in_ddl_capture(kind):
    # A kind that no rule knows is refused.
    skip_reason(empty_statement(kind), Included())


def test_what_a_copy_skips_is_in_the_table():
    assert set(LEFT_OUT) <= set(STATEMENT_KINDS)


@pytest.mark.parametrize(
    ("sql", "about"),
    [
        ("alter table a.t rename b to c", "OBJECT_TABLE"),
        ("alter view a.v rename column b to c", "OBJECT_VIEW"),
        ("alter type a.t rename attribute b to c", "OBJECT_TYPE"),
        ("alter table a.t rename constraint b to c", "OBJECT_TABCONSTRAINT"),
        ("drop index a.i", "OBJECT_INDEX"),
        ("comment on column a.t.b is 'x'", "OBJECT_COLUMN"),
    ],
)
def test_part_is_about_what_it_is_a_part_of(sql, about):
    (tree,) = parse(sql)
    assert pg_query_pb2.ObjectType.Name(object_type_of(*statement_of(tree))) == about
