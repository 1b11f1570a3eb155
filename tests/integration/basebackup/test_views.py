"""Views are skipped by name, and made after the data when asked for."""

from __future__ import annotations

from pgrepl.config.naming import TableSelection
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import copy

OBJECTS = """
create schema app;
create schema reports;
create schema "Odd.One";
create table app.sales (id integer primary key, shop text, amount numeric, check (amount > 0));
create table app.hidden (id integer primary key);
insert into app.sales values (1, 'a', 5), (2, 'a', 7), (3, 'b', 11);

create type reports.size as enum ('small', 'big');
create function reports.size_of(amount numeric) returns reports.size language sql immutable
    as $$ select case when amount > 6 then 'big'::reports.size else 'small'::reports.size end $$;
create function reports.count_sales() returns bigint language sql stable
    begin atomic select count(*) from app.sales; end;

-- Named against the order in which they stand on one another.
create view reports.z_base as
    select s.id, s.shop, app.sales.amount, reports.size_of(s.amount) as size
      from app.sales s join app.sales using (id);
create materialized view reports.y_stored as select shop, sum(amount) as total
    from reports.z_base group by shop;
create unique index y_stored_shop on reports.y_stored (shop);
create index y_stored_total on reports.y_stored (total);
comment on index reports.y_stored_shop is 'one a shop';
create view "Odd.One"."a View" with (security_barrier) as
    select t.*, reports.count_sales() as all_sales from reports.y_stored t where total > 0;
"""
MORE = """
alter view reports.z_base alter column shop set default 'here';
comment on view reports.z_base is 'the base';
comment on column reports.z_base.size is 'how big';
comment on materialized view reports.y_stored is 'stored';
create materialized view reports.never_filled as select 1 as one with no data;
create view reports.on_hidden as select * from app.hidden;
create view reports.on_on_hidden as select * from reports.on_hidden;
create table app.plain (id integer primary key);
create rule _nothing as on insert to reports.z_base do instead nothing;
"""


def views_of(database, prefix=""):
    query = (
        "select n.nspname, c.relname, c.relkind::text, c.relispopulated, c.reloptions::text,"
        " pg_get_viewdef(c.oid), obj_description(c.oid),"
        " (select string_agg(pg_get_indexdef(indexrelid) || coalesce(obj_description(indexrelid),"
        " ''), ';' order by indexrelid) from pg_index where indrelid = c.oid),"
        " (select string_agg(pg_get_expr(adbin, adrelid), ';') from pg_attrdef"
        "   where adrelid = c.oid), col_description(c.oid, 4)"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where c.relkind in ('v', 'm') and n.nspname !~ '^pg_|^information_schema|^replication'"
        " order by 1, 2"
    )
    with database.connect(options="-c search_path=pg_catalog") as connection:
        rows = connection.execute(query.encode()).fetchall()
    return [tuple(str(value).replace(prefix, "") for value in row) for row in rows]


def test_views_come_along_in_the_order_of_their_dependencies(source, target):
    source.execute(OBJECTS + MORE)
    report = copy(target, source, with_views=True, with_all_indexes=True, trust_code=True)
    prefix = f"{source.name}_"
    assert views_of(target, prefix) == views_of(source)
    rows = 'select * from {}"Odd.One"."a View" order by 1'
    there = source.rows(rows.format(""))
    assert target.rows(rows.format("").replace('"Odd.One"', f'"{prefix}Odd.One"')) == there
    assert len(there) == 2
    assert ("rule", "_nothing of reports.z_base") in {(i.kind, i.name) for i in report.left_out}
    assert not [item for item in report.left_out if "view" in item.kind]


def test_views_on_what_is_not_copied_are_named(source, target):
    source.execute(OBJECTS + MORE)
    chosen = TableSelection.of(["*.*"], ["app.hidden"])
    report = copy(target, source, with_views=True, tables=chosen, trust_code=True)
    left_out = {(item.kind, item.name): item.reason for item in report.left_out}
    assert left_out["view", "reports.on_hidden"] == "app.hidden is not replicated"
    assert left_out["view", "reports.on_on_hidden"] == "reports.on_hidden is not replicated"
    assert ("index", "reports.y_stored_total") in left_out
    names = {(schema, name) for schema, name, *_ in views_of(target, f"{source.name}_")}
    assert ("reports", "z_base") in names
    assert ("reports", "on_hidden") not in names
    # Everything named is named once.
    assert len(report.left_out) == len(left_out)


def test_views_are_left_out_and_named_unless_asked_for(source, target, tmp_path):
    source.execute(OBJECTS)
    config = write_config(tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()})
    plan = run_pgrepl("basebackup", source.name, "--config", config, "--dry-run")
    assert "skipped: view reports.z_base: only tables are replicated; --views makes it" in (
        plan.stdout
    )
    plan = run_pgrepl("basebackup", source.name, "--config", config, "--dry-run", "--views")
    assert (
        'skipped: view reports.z_base: function "size_of" is neither PostgreSQL\'s own'
        in plan.stdout
    )
    with config.open("a", encoding="utf-8") as file:
        file.write("trust_code = true\n")
    plan = run_pgrepl("basebackup", source.name, "--config", config, "--dry-run", "--views")
    assert "view reports.z_base" not in plan.stdout
    assert "then: refresh materialized view" in plan.stdout
    report = copy(target, source)
    assert {"view", "materialized view"} <= {item.kind for item in report.left_out}
    assert views_of(target) == []
