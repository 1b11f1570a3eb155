"""``pgrepl config check`` and ``pgrepl config show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import JsonOption
from pgrepl.cli.output.results import print_json, print_line
from pgrepl.terminal import json_text, toml_text

if TYPE_CHECKING:
    from pgrepl.config.model import Config

__all__ = ["check", "show"]


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
    from pgrepl.config.keys import write_keys
    from pgrepl.config.model import SECTIONS

    found: dict[str, dict[str, Any]] = {
        **{section: write_keys(getattr(config, section)) for section in SECTIONS},
        "sources": {source.name: write_keys(source) for source in config.sources.values()},
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


def _print_section(path: str, values: dict[str, Any]) -> None:
    """Print a section as TOML; JSON's numbers are TOML's too."""
    if path == "sources":
        for name, source in values.items():
            _print_section(f"sources.{name}", source)
        return
    print_line()
    print_line(f"[{path}]")
    for key, value in values.items():
        print_line(f"{key} = {_toml(value)}")


def _toml(value: Any) -> str:  # noqa: ANN401  whatever a section holds
    if isinstance(value, dict):
        return f"{{{', '.join(f'{toml_text(k)} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return toml_text(value) if isinstance(value, str) else json_text(value)
