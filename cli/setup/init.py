"""``pgrepl init``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.output.results import ask_for, print_line, print_script
from pgrepl.errors import ConfigError, UsageError

__all__ = ["init"]


def init(
    invocation: Invocation,  # noqa: ARG001  what is made here is what it would read
    *,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="DSN", help="The target database; asked for without it."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="NAME=DSN",
            help="A source database and its name; asked for without one.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Where to write; - for standard output."),
    ] = None,
) -> None:
    """Write a commented pgrepl.toml: two DSNs are enough, every other key has its default.

    Asks for what is not given. A file that exists is left alone.
    """
    from pgrepl.config.file import CONFIG_NAME
    from pgrepl.config.template import make_template

    path = output or Path(CONFIG_NAME)
    is_printed = str(path) == "-"
    if not is_printed and path.exists():
        raise ConfigError(f"{path} exists", hint="Write another with --output FILE, or edit it.")
    if (target is None or not source) and not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask for DSNs on",
            hint="Give them: pgrepl init --target DSN --source NAME=DSN",
        )
    chosen = _checked("the target's", target or _ask("DSN of the target database"))
    sources = dict(_named(text) for text in source or [])
    if not sources:
        name = ask_for("Name of the first source", "shop")
        sources = dict([_named(f"{name}={_ask('DSN of its database')}")])
    text = make_template(chosen, sources)
    if is_printed:
        print_script(text)
        return
    _write(path, text)
    print_line(f"written: {path}")
    print_line("next: pgrepl config check; pgrepl doctor", err=True)


def _ask(what: str) -> str:
    example = "host=db.internal dbname=shop user=pgrepl"
    return ask_for(f"{what}, such as '{example}'")


def _named(text: str) -> tuple[str, str]:
    name, equals, dsn = text.partition("=")
    if not equals or not name:
        raise UsageError("--source: give it as NAME=DSN")
    return name, _checked(f'source "{name}": its', dsn)


def _checked(whose: str, text: str) -> str:
    from pgrepl.config.dsn import Dsn, DsnError

    try:
        dsn = Dsn(text)
    except DsnError as exc:
        raise UsageError(f"{whose} DSN: {exc}") from None
    if dsn.has_password:
        raise UsageError(
            f"{whose} DSN holds a password",
            hint="Leave it out, and put the password into ~/.pgpass: the file may be read by more.",
        )
    return text


def _write(path: Path, text: str) -> None:
    """Write the file whole or not at all, if what is in it can be read back."""
    from pgrepl.config.file import load_config

    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        load_config(temporary)
        temporary.rename(path)
    except ConfigError as exc:
        reason = exc.message.removeprefix(f"{temporary}: ")
        raise ConfigError(reason, hint=exc.hint) from exc
    finally:
        temporary.unlink(missing_ok=True)
