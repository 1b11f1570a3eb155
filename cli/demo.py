"""``pgrepl demo``."""

from __future__ import annotations

from pgrepl.cli.invocation import Invocation

__all__ = ["demo"]


def demo(invocation: Invocation) -> None:
    """Show pgrepl at work on this machine, on throwaway PostgreSQL servers.

    Needs no configuration and touches no other server; everything it made is removed at the end.
    """
    from pgrepl.demo import run_demo

    del invocation  # the demo writes a configuration of its own
    run_demo()
