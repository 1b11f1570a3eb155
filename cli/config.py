"""``pgrepl config check`` and ``pgrepl config show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.output import print_json, print_line
from pgrepl.terminal import json_text

if TYPE_CHECKING:
    from pgrepl.config.model import Config

__all__ = ["check", "show"]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check(invocation: Invocation, *, json_output: JsonOption = False) -> None:
    """Read the configuration and report every mistake in it. Connects to nothing."""
    config = invocation.load_config()
    if json_output:
        print_json({"path": str(config.path), "sources": sorted(config.sources)})
    else:
        names = ", ".join(config.sources) or "none"
        print_line(f"{config.path}: no mistakes; sources: {names}")


def show(invocation: Invocation, *, json_output: JsonOption = False) -> None:
    """Print the configuration with every default filled in and every secret masked."""
    config = invocation.load_config()
    if json_output:
        print_json(_masked(config))
    else:
        print_line(f"# {config.path}")
        for section, values in _masked(config).items():
            _print_section(section, values)


def _masked(config: Config) -> dict[str, dict[str, Any]]:
    from pgrepl.durations import write_duration

    replay, housekeeping = config.replay, config.housekeeping
    found: dict[str, dict[str, Any]] = {
        "target": {"dsn": config.target.dsn.masked()},
        "spark": {"master": config.spark.master, "conf": config.spark.masked_conf()},
        "replay": {
            "shards": replay.shards,
            "batch_seconds": replay.batch_seconds,
            "consistency": replay.consistency,
            "on_error": replay.on_error,
            "on_conflict": replay.on_conflict,
        },
        "housekeeping": {
            "foreign_key_indexes": housekeeping.foreign_key_indexes,
            "history": write_duration(housekeeping.history),
        },
        "ddl": {"include": list(config.ddl.include), "resync": config.ddl.resync},
        "sources": {
            source.name: {
                "dsn": source.dsn.masked(),
                "slot": source.slot,
                "owner": source.owner_role,
                "schema": source.schema.text,
                "tables": [pattern.text for pattern in source.selection.include],
                "exclude": [pattern.text for pattern in source.selection.exclude],
                **({"max_spool": _size(source.max_spool)} if source.max_spool else {}),
                "special_floats": source.special_floats,
                "trust_code": source.trust_code,
                "kind": source.kind,
                "plugin": source.plugin,
            }
            for source in config.sources.values()
        },
    }
    return {section: _without_passwords(values) for section, values in found.items()}


def _without_passwords(value: Any) -> Any:  # noqa: ANN401  whatever a section holds
    """Strike passwords out of URIs, wherever one was written."""
    from pgrepl.config.dsn import mask_uris

    if isinstance(value, dict):
        return {key: _without_passwords(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_passwords(item) for item in value]
    return mask_uris(value) if isinstance(value, str) else value


def _size(size_bytes: int) -> str:
    """Print a size in the largest unit that shows it whole, as the file takes it."""
    for unit in ("kB", "MB", "GB"):
        size_bytes //= 1024
        if size_bytes % 1024:
            return f"{size_bytes}{unit}"
    return f"{size_bytes // 1024}TB"


def _print_section(path: str, values: dict[str, Any]) -> None:
    """Print a section as TOML; JSON's texts, numbers and lists are TOML's too."""
    if path == "sources":
        for name, source in values.items():
            _print_section(f"sources.{name}", source)
        return
    print_line()
    print_line(f"[{path}]")
    for key, value in values.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{json_text(k)} = {json_text(v)}" for k, v in value.items())
            print_line(f"{key} = {{{inner}}}")
        else:
            print_line(f"{key} = {json_text(value)}")
