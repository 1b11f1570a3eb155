"""Migrations have numbers of their own: of two with one number, one would never run."""

from __future__ import annotations

from pgrepl.store.migrations import known_migrations


def test_migrations_are_numbered_from_1_without_a_gap_or_a_second():
    assert [step.version for step in known_migrations()] == list(
        range(1, len(known_migrations()) + 1)
    )
