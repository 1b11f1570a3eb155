"""What is loaded on the source: small transactions of several shapes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WORKLOADS", "Workload"]


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    make: str
    #: pgbench's script; None: its own TPC-B.
    script: str | None
    transactions: int
    #: pgbench's; a variable in the name of a table needs the simple one.
    protocol: str = "prepared"


_COLUMNS = [f"c{n}" for n in range(40)]

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("tpcb", "TPC-B", "", None, 100_000),
        Workload(
            "insert",
            "insert-only",
            "create table log (id bigint generated always as identity primary key,"
            " at timestamptz default now(), customer int, note text)",
            "\\set c random(1, 100000)\n"
            "insert into log (customer, note)"
            " select :c, 'note ' || g from generate_series(1, 4) g;\n",
            100_000,
        ),
        Workload(
            "hot",
            "hot keys",
            "create table counter (id int primary key, n bigint not null, note text);"
            "insert into counter select g, 0, 'a counter' from generate_series(1, 100) g",
            "\\set c random(1, 96)\nupdate counter set n = n + 1 where id between :c and :c + 3;\n",
            100_000,
        ),
        Workload(
            "wide",
            "wide rows",
            f"create table wide (id int primary key, {', '.join(f'{c} text' for c in _COLUMNS)});"
            f"insert into wide select g, {', '.join(f'$${c} $$||g' for c in _COLUMNS)}"
            " from generate_series(1, 20000) g",
            "\\set c random(1, 20000)\nupdate wide set c1 = 'x' || :c, c7 = now() where id = :c;\n",
            100_000,
        ),
        Workload(
            "many",
            "200 small tables",
            ";".join(
                f"create table t_{n} (id int primary key, n int);"
                f"insert into t_{n} select g, 0 from generate_series(1, 100) g"
                for n in range(200)
            ),
            "\\set a random(0, 199)\n\\set b random(0, 199)\n\\set c random(1, 100)\n"
            "begin;\nupdate t_:a set n = n + 1 where id = :c;\n"
            "update t_:b set n = n + 1 where id = :c;\nend;\n",
            100_000,
            protocol="simple",
        ),
    )
}
