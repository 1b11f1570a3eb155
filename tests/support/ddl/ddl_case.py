"""What one DDL statement is tried with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    name: str
    #: Runs in one transaction with rows before and after it; ``{s}`` is the schema.
    ddl: str
    #: What must be there.
    before: str = ""
    #: Changes after it: in the same transaction, and once more in the next one.
    after: str = "update t set a = coalesce(a, 0) + 100 where id = 1"
    #: CONCURRENTLY and the like refuse to be inside a transaction.
    is_alone: bool = False
    #: Other schemas to compare, without the case's own in front.
    schemas: tuple[str, ...] = ()


TABLES = """
create schema {s};
create table {s}.t (id int primary key, a int, b text not null default 'b', c numeric(10,2));
create table {s}.other (id int generated always as identity primary key, t_id int, note text);
insert into {s}.t (id, a, c) select g, g, g * 1.5 from generate_series(1, 5) g;
insert into {s}.other (t_id, note) select g, 'n' || g from generate_series(1, 5) g;
"""
