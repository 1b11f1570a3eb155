"""Texts of servers whose words are not those of the grammar that reads them."""

from __future__ import annotations

import pytest

from pgrepl.syntax.parse import SqlSyntaxError, is_same, parse, parse_one, parse_texts
from pgrepl.syntax.remap import SchemaMap, remap


def test_word_that_is_reserved_later_is_a_name_where_it_can_be_nothing_else():
    text = "alter table t add SYSTEM_USER text default 'system_user', add \"system_user\" int"
    quoted = 'alter table t add "system_user" text default \'system_user\', add "system_user" int'
    assert is_same(parse_one(text), parse_one(quoted))
    assert [part for _, part in parse_texts(f"select 'ä'; {text};")] == ["select 'ä'", quoted]


def test_word_that_is_reserved_later_is_what_it_is_where_it_can_be_that():
    (tree,) = parse("select system_user")
    assert tree.select_stmt.target_list[0].res_target.val.HasField("func_call")


def test_text_with_such_a_word_that_is_no_sql_either_way_is_refused():
    with pytest.raises(SqlSyntaxError, match="system_user"):
        parse("alter table t add system_user system_user system_user")


def test_statement_with_such_a_word_gets_other_schemas():
    (found,) = parse_texts("create table s.t (system_user int primary key)")
    tree, text = found
    assert remap(tree, SchemaMap({"s": "there"}), text).sql == (
        'create table "there".t ("system_user" int primary key)'
    )
