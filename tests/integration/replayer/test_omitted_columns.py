"""Columns that rules omit, the whole way: copy, stream, DDL, resync, verify and export."""

from __future__ import annotations

import pytest

from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.run import copy_source
from pgrepl.ddl_capture import install
from tests.integration.replayer.test_rules import export
from tests.support.running.copying import Recorder
from tests.support.running.ruled import RuledPipeline, leaks, rule

CANARY = "CANARY-9c1d"
TABLES = f"""
create schema app;
create table app.people (id int primary key, name text not null, ssn text not null unique,
                         tax int generated always as identity, twice text
                         generated always as (ssn || ssn) stored, open text,
                         constraint long_enough check (length(ssn) > 3));
create index people_ssn on app.people (lower(ssn));
create index people_open on app.people (open);
create statistics app.together on name, ssn from app.people;
comment on column app.people.ssn is 'the number';
comment on constraint long_enough on app.people is 'of the number';
comment on index app.people_ssn is 'by the number';
create table app.cards (id int primary key, of text references app.people (ssn), note text);
create table app.visits (id int, place int, who text, primary key (id, place))
    partition by list (place);
create table app.visits_0 partition of app.visits for values in (0);
create table app.visits_1 partition of app.visits for values in (1);
create view app.numbers as select id, ssn from app.people;
create view app.of_numbers as select * from app.numbers;
create view app.names as select id, name from app.people;
insert into app.people (id, name, ssn, open) select g, 'n' || g, '{CANARY}-' || g, 'open'
    from generate_series(1, 60) g;
insert into app.cards select g, '{CANARY}-' || g, 'n' from generate_series(1, 9) g;
insert into app.visits select g, g % 2, '{CANARY}-' || g from generate_series(1, 20) g;
"""
RULES = [
    rule("app.people", "app.clients", omit=("ssn", "tax", "twice", "phone", "secret")),
    rule("app.visits*", omit=("who",)),
    rule("app.cards", omit=("of",)),
]
CHANGES = (
    f"insert into app.people (id, name, ssn) values (100, 'x', '{CANARY}')",
    f"update app.people set ssn = '{CANARY}-y' || id, open = 'u' where id between 10 and 19",
    "update app.people set id = id + 1000 where id between 20 and 25",
    "delete from app.people where id between 40 and 45",
    "update app.visits set place = 1 - place where id < 10",
    f"insert into app.visits select g, g % 2, '{CANARY}' from generate_series(100, 120) g",
    "alter table app.visits replica identity full",
    f"update app.visits set who = '{CANARY}?'",
    "delete from app.visits where id = 7",
    "update app.cards set note = 'm', of = null where id < 5",
    "truncate app.cards",
    f"insert into app.cards values (1, '{CANARY}-1', 'again')",
)
DDL = (
    "alter table app.people add column phone text default 'none', add column age int default 3",
    f"update app.people set phone = '{CANARY}' where id < 5",
    "alter table app.people rename phone to secret",
    "alter table app.people alter secret type varchar using left(secret, 40), add check (age > 0)",
    "alter table app.people add constraint pair unique (name, secret, id), alter age set not null",
    "create unique index on app.people (id, secret)",
    "create index by_secret on app.people (secret); drop index app.by_secret",
    "alter table app.people drop constraint pair, drop column secret cascade",
    "alter table app.visits alter who type varchar, add column extra int default 3",
    "comment on column app.people.ssn is 'another'",
    "create view app.more as select ssn from app.people",
    "alter table app.people rename to clients",
    f"insert into app.clients (id, name, ssn, age) values (200, 'y', '{CANARY}!', 7)",
    "alter table app.clients rename open to phone",
    "alter index app.people_ssn rename to people_number",
)
COLUMNS = (
    "select string_agg(attname, ' ' order by attname) from pg_attribute"
    " where attrelid = '{}'::regclass and attnum > 0 and not attisdropped"
)


def columns(pipeline: RuledPipeline, table: str) -> str:
    return str(pipeline.target.value(COLUMNS.format(f"{pipeline.schema('app')}.{table}")))


def assert_omitted(pipeline: RuledPipeline) -> None:
    assert pipeline.parked() == []
    assert pipeline.target.rows("select original, error from replication.ddl_pending") == []
    assert pipeline.masked_differences("app") == []
    report = pipeline.verify()
    assert not report.has_differences, report
    assert report.error is None
    assert leaks(pipeline.target, CANARY) == []


@pytest.mark.parametrize("plugin", ["pgoutput", pytest.param("wal2json", marks=pytest.mark.soak)])
def test_omitted_column_is_nowhere_on_the_target(source, target, tmp_path, plugin):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    assert columns(pipeline, "people") == "id name open"
    assert columns(pipeline, "visits_1") == "id place"
    assert_omitted(pipeline)
    exported = export(pipeline, tmp_path)
    source.execute(*CHANGES)
    pipeline.receive()
    assert leaks(target, CANARY) == []
    exported += export(pipeline, tmp_path)
    pipeline.follow()
    assert_omitted(pipeline)
    source.execute(*DDL)
    pipeline.follow()
    exported += export(pipeline, tmp_path)
    assert columns(pipeline, "clients") == "age id name"
    assert_omitted(pipeline)
    assert '"again"' in exported
    assert CANARY not in exported
    assert '"ssn"' not in exported
    # Nothing had to be copied for it.
    assert target.value("select count(*) from replication.resync_due") == 0


def test_rule_that_omits_and_one_that_does_not_any_more_take_effect_by_a_copy(source, target):
    source.execute(TABLES, "create view app.seen as select id, open from app.people")
    pipeline = RuledPipeline(source, target, rules=RULES[1:])
    pipeline.begin()
    pipeline.follow()
    assert columns(pipeline, "people") == "id name open ssn tax twice"
    pipeline.rules = [*RULES[:1], RULES[2]]
    source.execute(*CHANGES)
    pipeline.follow()
    assert columns(pipeline, "people") == "id name open"
    assert columns(pipeline, "visits") == columns(pipeline, "visits_0") == "id place who"
    assert pipeline.masked_differences("app") == []
    assert not pipeline.verify().has_differences
    assert pipeline.parked() == []


def test_table_that_joins_or_is_copied_in_chunks_has_no_omitted_column(source, target):
    source.execute(TABLES, "drop table app.visits")
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.only = "app.cards"
    pipeline.begin()
    pipeline.follow()
    pipeline.only = None
    pipeline.copy_again_in_chunks("app.people")
    source.execute(*CHANGES[:4])
    pipeline.follow()
    assert columns(pipeline, "people") == "id name open"
    assert leaks(target, CANARY) == []
    source.execute(
        f"update app.people set ssn = '{CANARY}:' || id, open = 'o' where id between 10 and 19"
    )
    pipeline.copy_again_in_chunks("app.people")
    pipeline.follow()
    assert_omitted(pipeline)


def test_what_names_an_omitted_column_is_named_in_the_report(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    config = pipeline.config
    install(config.sources[source.name])
    recorder = Recorder()
    options = CopyOptions(with_views=True, with_all_indexes=True)
    report = copy_source(config, config.sources[source.name], options, recorder)
    found = {(item.kind, item.name.split(" ")[0]) for item in report.left_out}
    assert {
        ("column", "ssn"),
        ("column", "twice"),
        ("constraint", "long_enough"),
        ("constraint", "people_ssn_key"),
        ("constraint", "cards_of_fkey"),
        ("index", "people_ssn"),
        ("statistics", "together"),
        ("view", "app.numbers"),
        ("view", "app.of_numbers"),
    } <= found
    assert not {("index", "people_open"), ("view", "app.names")} & found
    schema = pipeline.schema("app")
    assert target.value(f"select count(*) from {schema}.names") == 60
    assert target.value(f"select to_regclass('{schema}.people_open') is not null")


@pytest.mark.parametrize(
    "statement",
    [
        "alter table app.people drop constraint people_pkey, add primary key (id, ssn)",
        "alter table app.people replica identity using index people_ssn_key",
    ],
)
def test_ddl_that_needs_an_omitted_column_waits_with_its_table(source, target, statement):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    source.execute(statement, f"update app.people set ssn = '{CANARY}/' || id where id > 50")
    with pytest.raises(Exception, match="tells rows apart"):
        pipeline.receive()
    # Who replays what was received before that was noticed does not guess.
    pipeline.rules = RULES[1:]
    pipeline.receive()
    pipeline.rules = RULES
    pipeline.replay_ddl()
    ((table, reason),) = pipeline.parked()
    assert table == "people"
    assert "rules omit" in reason + str(target.value("select error from replication.ddl_pending"))
