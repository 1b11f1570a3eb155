"""What a scenario of DDL is, for ``reach_tables`` and ``reach_others``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scenario:
    """Has a schema of its own, named after it."""

    name: str
    #: What is there when the source is copied.
    before: str
    #: What is captured, each entry a client's message, rows among it. One that begins with
    #: ``-- fails`` does.
    after: tuple[str, ...]


def case(name: str, before: str, *after: str) -> Scenario:
    return Scenario(name, before, after)


T = (
    "create table t (id int primary key, a int, b text default 'b');"
    " insert into t select g, g, 'r' || g from generate_series(1, 3) g;"
)
MORE = "insert into t (id, a) values (7, 7)"
CHANGE = "update t set a = a + 10 where id = 2"

#: Schemas that scenarios share besides their own.
OTHER_SCHEMAS = (
    "Ex tra",
    "moved_c",
    "reach_%",
    "reach_b",
    "reach_c",
    "reach_d",
    "reach_extra",
    "reach_hide",
    "reach_kin",
    "reach_own",
    "reach_s1",
    "reach_seq",
    "reach_to",
    "reach_twice",
    "swap_a",
    "swap_b",
)
