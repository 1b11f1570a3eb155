"""``pgrepl demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from pgrepl.cli.invocation import Invocation

__all__ = ["demo"]


def demo(
    invocation: Invocation,
    *,
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka",
            help="Show PostgreSQL to Debezium to Kafka to pgrepl beside the direct way instead.",
        ),
    ] = False,
) -> None:
    """Show pgrepl at work on this machine, on throwaway PostgreSQL servers.

    Needs no configuration and touches no other server; everything it made is removed at the end.
    """
    from pgrepl.demo import run_demo, run_kafka_demo

    del invocation  # the demo writes a configuration of its own
    if kafka:
        run_kafka_demo()
    else:
        run_demo()
