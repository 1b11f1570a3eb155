"""No statement on a source fails because its tables are published, whatever becomes of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgrepl.config.dsn import Side
from pgrepl.ddl_capture import install
from pgrepl.doctor.checks.source.publication_checks import check_publications
from pgrepl.doctor.finding import Status
from pgrepl.doctor.source_facts import read_source
from pgrepl.postgres.connect import connect
from pgrepl.publications.late import read_late_tables
from pgrepl.publications.make import make_publications
from pgrepl.publications.plan import publish_statements
from pgrepl.publications.tables import read_publications
from tests.support.observing.sessions import has_compiled
from tests.support.running.publishing import KEYED, members, noted, publish, source_of, unpublish
from tests.support.waiting import wait_until

LOSSES = {
    "primary_key": "alter table t drop constraint t_pkey",
    "column_of_the_key": "alter table t drop column id, add column id int",
    "nothing": "alter table t replica identity nothing",
    "deferrable": "alter table t drop constraint t_pkey, add primary key (id) deferrable",
    "index_dropped": "create unique index i on t (id);"
    "alter table t replica identity using index i; drop index i",
    "index_dropped_concurrently": "drop index concurrently i",
    "in_a_function": "do 'begin execute ''alter table t drop constraint t_pkey''; end'",
    "attribute_of_its_type": "create type k as (id int, note text); drop table t;"
    "create table t of k (primary key (id)); insert into t values (1, 'one');"
    "alter type k drop attribute id cascade",
    "operator_class_dropped": "create function same(int, int) returns int language sql immutable"
    " strict as 'select btint4cmp($1, $2)';"
    "create operator class own for type int using btree as operator 1 <, operator 2 <=,"
    " operator 3 =, operator 4 >=, operator 5 >, function 1 same(int, int);"
    "create unique index i on t (id own); alter table t replica identity using index i;"
    "drop routine same(int, int) cascade",
    "type_dropped": "create domain d as int; create table u (id d primary key, note text);"
    "insert into u values (1, 'one'); drop domain d cascade; drop table t;"
    "alter table u rename to t; alter table t add id int",
}


def test_no_query_of_the_guard_is_compiled(published):
    with published.connect() as session:
        session.execute("set jit = on; set jit_above_cost = 0")
        session.execute("create table u (id int primary key)")
        session.execute(f"alter publication pgrepl_{published.name} drop table u".encode())
        session.execute("alter table u drop constraint u_pkey; drop table u")
        assert not has_compiled(session)


@pytest.mark.parametrize("name", LOSSES)
def test_table_that_loses_its_identity_can_be_updated(published, name):
    if name == "index_dropped_concurrently":
        published.execute(
            "create unique index i on t (id)", "alter table t replica identity using index i"
        )
    published.execute(LOSSES[name])
    published.execute("update t set note = 'two'", "delete from t")
    assert members(published) == []


def test_identity_that_is_lost_and_changes_in_one_transaction(published):
    published.execute(
        "begin; alter table t drop constraint t_pkey; update t set note = 'two';"
        " alter table t add primary key (id); update t set note = 'three'; commit"
    )
    assert members(published) == ["t"]


def test_new_tables_join_by_what_they_are(published):
    published.execute(
        "create table keyed (id int primary key)",
        "create table keyless (id int)",
        "create table made as select 1 as id",
        "create unlogged table fast (id int primary key)",
        "create temporary table here (id int primary key)",
        "create table p (id int primary key) partition by range (id)",
        "create table p1 partition of p for values from (0) to (9)",
        "create table p2 (id int not null)",
        "alter table p attach partition p2 for values from (10) to (19)",
        "create schema s create table inside (id int primary key)",
    )
    assert members(published) == ["inside", "keyed", "p1", "p2", "t"]
    for name in ("keyless", "made", "fast", "keyed", "p"):
        published.execute(f"insert into {name} values (3)", f"update {name} set id = id")
        published.execute(f"insert into {name} values (4)", f"delete from {name}")
    published.execute("alter table keyless add primary key (id)", "alter table fast set logged")
    assert members(published) == ["fast", "inside", "keyed", "keyless", "p1", "p2", "t"]


def test_partitions_of_a_table_that_loses_its_key_can_be_updated(published):
    published.execute(
        "create table p (id int primary key, note text) partition by range (id)",
        "create table p1 partition of p for values from (0) to (9)",
        "insert into p values (1, 'one')",
        "alter table p drop constraint p_pkey",
        "update p set note = 'two'",
    )
    assert members(published) == ["t"]


def test_table_can_become_unlogged_and_come_back(published):
    published.execute("alter table t set unlogged", "update t set note = 'two'")
    assert members(published) == []
    published.execute("alter table t set logged", "update t set note = 'three'")
    assert members(published) == ["t"]


UNLOGGED = {
    "quoted": ('alter table "T ""x"";" set unlogged', 'T "x";'),
    "in_numbers": (r'alter table U&"\0054" set unlogged', "T"),
    "with_a_comment": ("alter table t\nset /* ; */ unlogged", "t"),
    "in_a_message_of_several": ("select 1; alter table t set unlogged; select 2", "t"),
    "by_a_function": ("select run('alter table t set un' || 'logged')", "t"),
    "by_a_function_in_sql": ("select run_sql()", "t"),
    "by_a_function_in_a_function": ("select run('select run_sql()')", "t"),
    "without_escapes": ("set standard_conforming_strings = off; alter table t set unlogged", "t"),
}


@pytest.mark.parametrize("name", UNLOGGED)
def test_table_can_become_unlogged_by_whatever_statement(published, name):
    statement, table = UNLOGGED[name]
    published.execute(
        "create function run(statement text) returns void language plpgsql as"
        " 'begin execute statement; end'",
        "create function run_sql() returns void language sql as 'alter table t set unlogged'",
        "create table other (id int primary key)",
    )
    quoted = table.replace('"', '""')
    if table != "t":
        published.execute(f'create table "{quoted}" (id int primary key)')
    with published.connect() as session:
        session.execute(statement.encode())
    kind = "select relpersistence::text from pg_class where relname = $${}$$"
    assert published.value(kind.format(table)) == "u"
    assert table not in members(published)
    assert "other" in members(published)


def test_table_that_is_altered_beside_one_that_becomes_unlogged_stays(published):
    published.execute("create table other (id int primary key)")
    published.execute("alter table t add more int; alter table other set unlogged")
    assert members(published) == ["t"]
    assert ("t", False) not in noted(published)


def test_statement_that_makes_a_table_unlogged_waits_for_the_publication(published):
    with (
        psycopg.connect(published.dsn()) as migration,
        psycopg.connect(published.dsn(), autocommit=True) as session,
        ThreadPoolExecutor(1) as pool,
    ):
        migration.execute("create table third (id int primary key)")
        altered = pool.submit(session.execute, "alter table t set unlogged")
        # Longer than others wait.
        waits = (
            "select wait_event_type = 'Lock' and clock_timestamp() - query_start > '0.5 s'"
            f" from pg_stat_activity where pid = {session.info.backend_pid}"
        )
        wait_until(lambda: published.value(waits))
        migration.commit()
        altered.result()
    assert members(published) == ["third"]


def test_serializable_transactions_with_ddl_do_not_meet(published):
    published.execute("create table a (id int)", "create table b (id int)")
    with psycopg.connect(published.dsn()) as first, psycopg.connect(published.dsn()) as second:
        for session in (first, second):
            session.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            session.execute("select 1")
        first.execute("update t set note = 'two'")
        first.execute("alter table a add primary key (id)")
        first.commit()
        # That the second one is before the first in what it reads is allowed, and not more.
        second.execute("alter table b add primary key (id)")
        second.execute("select * from t")
        second.commit()
    assert noted(published) == [("a", False), ("b", False)]


def test_many_tables_do_not_wait_one_after_the_other(published):
    published.execute("create table p (id int primary key) partition by range (id)")
    for number in range(40):
        bounds = f"from ({number}) to ({number + 1})"
        published.execute(f"create table p{number} partition of p for values {bounds}")
    with psycopg.connect(published.dsn()) as migration:
        migration.execute("create table third (id int primary key)")
        published.execute(
            "set statement_timeout = '4s'; alter table p drop constraint p_pkey;"
            " update p set id = id"
        )


def test_tables_outside_the_selection_are_left_alone(source):
    source.execute(KEYED, "create schema bi", "create table bi.a (id int primary key)")
    publish(source, exclude=["bi.*"])
    source.execute(
        "create table bi.b (id int primary key)",
        "create table bi.c (id int)",
        "update bi.c set id = 1",
        "alter table t set schema bi",
        "alter table bi.a rename to t2",
        "alter table bi.t2 set schema public",
    )
    assert members(source) == ["t", "t2"]
    source.execute("alter table bi.t drop constraint t_pkey", "delete from bi.t")


def test_identity_with_a_generated_column_is_one_where_such_columns_are_sent(source, binaries):
    table = "create table {} (n int, g int generated always as (n * 2) stored primary key)"
    source.execute(table.format("t"))
    publish(source)
    # As the event triggers judge it, too.
    source.execute("alter table t add note text", table.format("u"))
    for name in ("t", "u"):
        source.execute(f"insert into {name} values (1)", f"update {name} set n = 2")
    assert members(source) == (["t", "u"] if binaries.version >= (18,) else [])


def test_update_does_not_fail_where_the_whole_row_has_a_column_that_is_never_sent(source, binaries):
    kind = "virtual" if binaries.version >= (18,) else "stored"
    column = f"g int generated always as (id * 2) {kind}"
    source.execute(f"create table t (id int, {column}); alter table t replica identity full")
    publish(source)
    source.execute("create table u (id int); alter table u replica identity full")
    assert "u" in members(source)
    source.execute(f"alter table u add {column}")
    for name in ("t", "u"):
        source.execute(f"insert into {name} values (1)", f"update {name} set id = 2")
    assert members(source) == ([] if kind == "virtual" else ["t", "u"])


def test_nobody_waits_for_another_transaction_that_changes_the_publication(published):
    published.execute("create table other (id int primary key, note text)")
    with psycopg.connect(published.dsn()) as migration:
        migration.execute("create table third (id int primary key)")
        published.execute(
            "set statement_timeout = '5s'; alter table t drop constraint t_pkey;"
            " update t set note = 'two'; create table fourth (id int primary key);"
            " update fourth set id = 1"
        )
        identity = "select relreplident::text from pg_class where oid = 't'::regclass"
        assert published.value(identity) == "f"
    assert "fourth" not in members(published)
    assert "third" in members(published)
    with connect(published.endpoint(Side.SOURCE), "test") as connection:
        config = source_of(published)
        missing = read_publications(connection, config).unpublished(config.selection)
        assert [table.name for table in missing] == ["fourth"]
        make_publications(connection, config)
    assert members(published) == ["fourth", "other", "t", "third"]


def test_log_of_ddl_is_sent_without_a_publication_of_all_its_changes(published):
    config = source_of(published)
    install(config)
    with connect(published.endpoint(Side.SOURCE), "test") as connection:
        found = read_publications(connection, config)
        version = connection.info.server_version
    assert found.unpublished(config.selection) == []
    # Nor by the role that copies, which may alter none that a superuser made.
    assert publish_statements(config, found, version, is_superuser=False) == []


def test_event_triggers_of_others_do_not_see_what_is_published(published):
    published.execute(
        "create table seen (tag text)",
        "create function see() returns event_trigger language plpgsql as"
        " 'begin insert into seen values (tg_tag); end'",
        "create event trigger see on ddl_command_end execute function see()",
        "create table new (id int primary key)",
        "drop event trigger see",
    )
    assert published.rows("select * from seen") == [("CREATE TABLE",)]


def test_comment_of_somebody_else_breaks_nothing(published):
    published.execute(
        "create role nobody_special",
        "create publication odd",
        "create publication odd_inserts",
        "comment on publication odd is '{\"pgrepl\": no json'",
        "alter publication odd owner to nobody_special",
    )
    try:
        published.execute("create table new (id int primary key)")
        assert "new" in members(published)
    finally:
        published.execute("drop publication odd", "drop role nobody_special")


def test_comment_of_ours_that_cannot_be_read_breaks_nothing(published):
    published.execute(
        f"comment on publication pgrepl_{published.name} is '{{\"pgrepl\": no json'",
        "create table new (id int primary key)",
    )
    publish(published)
    assert members(published) == ["new", "t"]


def test_tables_are_published_where_transactions_are_read_only_by_default(source):
    source.execute(KEYED, f"alter database {source.name} set default_transaction_read_only = on")
    publish(source)
    assert members(source) == ["t"]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP", "UTF8"])
def test_pattern_with_any_characters_breaks_nothing(source, encoding):
    source.make_anew(encoding)
    source.execute(KEYED)
    publish(source, exclude=["public.größe", "public.€*", "public.🐘"])
    source.execute("create table new (id int primary key)")
    expected = ["new", "t"]
    if encoding != "EUC_JP":
        with source.connect(client_encoding=encoding) as session:
            codec = "latin-1" if encoding == "LATIN1" else "utf-8"
            session.execute('create table "größe" (id int primary key)'.encode(codec))
    if encoding == "UTF8":
        source.execute('create table "€uro" (id int primary key)')
    found = "select relname::text from pg_publication_rel join pg_class c on c.oid = prrelid"
    names = [name if isinstance(name, str) else name.decode() for (name,) in source.rows(found)]
    assert sorted(names) == expected


def test_all_of_it_is_removed(published):
    unpublish(published)
    for query in (
        "select from pg_publication",
        "select from pg_event_trigger",
        "select from pg_namespace where nspname = 'pgrepl'",
    ):
        assert published.rows(query) == []


def test_role_that_owns_the_tables_publishes_them_one_by_one(source):
    source.execute(
        "create role owner_of_tables login replication",
        f"grant create on database {source.name} to owner_of_tables",
        "create schema o authorization owner_of_tables",
        "set role owner_of_tables; create table o.keyed (id int primary key);"
        " create table o.keyless (id int)",
    )
    try:
        endpoint = source.endpoint(Side.SOURCE, user="owner_of_tables")
        with connect(endpoint, "test") as connection:
            make_publications(connection, source_of(source))
        assert (members(source), members(source, "_inserts")) == (["keyed"], ["keyless"])
        source.execute("update o.keyless set id = 1")
        # A superuser adds what keeps them.
        publish(source)
        source.execute("alter table o.keyless add primary key (id)", "create table o.new (id int)")
        assert (members(source), members(source, "_inserts")) == (["keyed", "keyless"], ["new"])
        assert noted(source) == [("keyless", False)]
        # Its rows were there before it could be listed.
        source.execute("create table o.filled as select 1 as id")
        assert noted(source) == [("filled", True), ("keyless", False)]
    finally:
        unpublish(source)
        source.execute("drop owned by owner_of_tables cascade", "drop role owner_of_tables")


def test_table_that_joins_after_it_existed_is_noted_once(published):
    published.execute(
        "create table new (id int primary key, note text); alter table new add more int",
        "begin; create table at_once (id int); insert into at_once values (1);"
        " alter table at_once add primary key (id); commit",
        "create table never (id int)",
    )
    assert noted(published) == []
    published.execute(
        "begin; create table itself (id int); insert into itself values (1);"
        " update itself set id = 2; alter table itself add primary key (id); commit",
        "alter table never add primary key (id)",
        "alter table t drop constraint t_pkey",
        "alter table t add primary key (id)",
        "alter table t drop constraint t_pkey, add primary key (id)",
        "alter table t drop constraint t_pkey",
        "alter table t add primary key (id)",
        f"alter publication pgrepl_{published.name} drop table new",
        f"alter publication pgrepl_{published.name} add table new",
    )
    assert noted(published) == [("itself", True), ("never", False), ("new", False), ("t", False)]


def test_table_that_could_not_join_is_noted_when_it_does(published):
    with psycopg.connect(published.dsn()) as migration:
        migration.execute("create table third (id int primary key)")
        published.execute("create table fourth (id int primary key)")
    assert noted(published) == []
    publish(published)
    assert (members(published), noted(published)) == (
        ["fourth", "t", "third"],
        [("fourth", False)],
    )


@pytest.mark.parametrize("isolation", [*psycopg.IsolationLevel][2:])
@pytest.mark.parametrize(
    ("meanwhile", "change", "expected"),
    [
        ("alter publication {} drop table t", "alter table t drop constraint t_pkey", ["new"]),
        (
            "alter table other replica identity full",
            "alter table other add primary key (id)",
            ["new", "other", "t"],
        ),
        ("select", "alter table new drop constraint new_pkey", ["t"]),
        ("select", "alter table new replica identity nothing", ["t"]),
        ("select", "alter table new add more int", ["new", "t"]),
        ("select", "alter table new set unlogged", ["t"]),
        ("select", "alter type k drop attribute id cascade", ["new", "t"]),
        (
            "create unique index i on new (id); alter table new replica identity using index i",
            "drop index i",
            ["t"],
        ),
        (
            (
                "create table p (id int primary key) partition by range (id);"
                " create table p1 partition of p for values from (0) to (9)"
            ),
            "alter table p drop constraint p_pkey",
            ["new", "t"],
        ),
        (
            "alter table t drop constraint t_pkey; alter table t add primary key (id)",
            "alter table t drop constraint t_pkey",
            ["new"],
        ),
    ],
)
def test_transaction_with_an_old_snapshot_can_change_tables(
    published, isolation, meanwhile, change, expected
):
    published.execute("create table other (id int)", "create type k as (id int, note text)")
    with psycopg.connect(published.dsn()) as migration:
        migration.isolation_level = isolation
        migration.execute("select 1")
        # It does not see that they joined.
        published.execute(
            "create table new (id int primary key)", "create table typed of k (primary key (id))"
        )
        published.execute(*meanwhile.format(f"pgrepl_{published.name}").split("; "))
        migration.execute(change)
    tables = "select tablename::text from pg_tables where schemaname = 'public'"
    published.execute(*(f"delete from {name}" for (name,) in published.rows(tables)))
    expected = expected if "drop attribute" in change else sorted([*expected, "typed"])
    assert members(published) == expected


def test_change_goes_through_when_a_publication_cannot_be_changed(published):
    """Whatever the reason: here a user's event trigger refuses."""
    published.execute(
        "create function refuse() returns event_trigger language plpgsql as"
        " 'begin raise exception ''no %'', tg_tag; end'",
        "create event trigger refuse on ddl_command_end when tag in ('ALTER PUBLICATION')"
        " execute function refuse()",
        "alter event trigger refuse enable always",
    )
    try:
        published.execute(
            "create table new (id int primary key)",
            "alter table t drop constraint t_pkey",
            "update t set note = 'two'",
        )
    finally:
        published.execute("drop event trigger refuse")
    assert members(published) == ["t"]


def test_replication_role_may_read_the_notes(source):
    source.execute("create role receiver_of_notes login replication", KEYED)
    try:
        publish(source)
        with connect(source.endpoint(Side.SOURCE, user="receiver_of_notes"), "test") as connection:
            assert read_publications(connection, source_of(source)).state.may_read_notes
            assert read_late_tables(connection) == []
            source.execute("revoke usage on schema pgrepl from receiver_of_notes")
            config = source_of(source)
            found = check_publications(
                config, read_source(connection, config), read_publications(connection, config)
            )
        assert (found.status, found.is_offered) == (Status.WARNING, True)
        assert "may not read which tables were published late" in found.message
    finally:
        unpublish(source)
        source.execute("drop role receiver_of_notes")
