"""Publications of pgrepl on a source, without a copy of it."""

from __future__ import annotations

from pgrepl.config.dsn import Side
from pgrepl.config.naming import TableSelection
from pgrepl.postgres.connect import connect
from pgrepl.publications.make import make_publications
from pgrepl.publications.plan import drop_statements
from tests.support.running.copying import make_config

KEYED = "create table t (id int primary key, note text); insert into t values (1, 'one')"


def source_of(source, exclude=()):
    (config,) = make_config(source, source, plugin="pgoutput").sources.values()
    object.__setattr__(config, "selection", TableSelection.of(["*.*"], exclude))
    return config


def publish(source, exclude=()):
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        make_publications(connection, source_of(source, exclude))


def unpublish(source):
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        for statement in drop_statements(f"pgrepl_{source.name}", is_superuser=True):
            connection.execute(statement)


def members(source, suffix=""):
    return [
        name
        for (name,) in source.rows(
            "select relname::text from pg_publication_rel r"
            " join pg_publication p on p.oid = prpubid join pg_class c on c.oid = prrelid"
            f" where pubname = 'pgrepl_{source.name}{suffix}' order by 1"
        )
    ]


def noted(source):
    return source.rows(
        "select c.relname::text, is_changed from pgrepl.joined_late"
        " join pg_class c on c.oid = relation order by 1, 2"
    )
