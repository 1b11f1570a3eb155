"""Cursors that the server keeps."""

from __future__ import annotations

from pgrepl.postgres.server_cursor import closed_at_the_end


def test_cursor_is_closed_when_the_server_has_ended_the_session(source):
    session = source.connect()
    session.autocommit = False
    with closed_at_the_end(session.cursor("many")) as cursor:
        cursor.execute("select generate_series(1, 1000)")
        source.execute(f"select pg_terminate_backend({session.info.backend_pid}, 10000)")
    assert cursor.closed
    session.close()
