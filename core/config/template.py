"""A commented ``pgrepl.toml`` to begin with: the DSNs given, and every other key with its default.

Made of the declarations of the keys, so that it says what the program does.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping

from pgrepl.config.keys import documented
from pgrepl.config.model import SECTIONS, SourceConfig
from pgrepl.terminal import toml_text

__all__ = ["make_template"]

_WIDTH = 100
#: The default of a text that the file gives or does not have.
_NOTHING = '`""`'
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")

_HEAD = """\
# pgrepl.toml: many PostgreSQL databases into one. What is commented out is the default.
# Check it with: pgrepl config check; then go on with: pgrepl doctor
# Passwords come from libpq: ~/.pgpass, a service file, or the environment.
"""


def make_template(target: str, sources: Mapping[str, str]) -> str:
    """Return the text of a file with these DSNs."""
    parts = [_HEAD]
    for section, kind in SECTIONS.items():
        given = {"dsn": target} if section == "target" else {}
        parts.append("\n".join(_section(section, kind, given)))
    parts += [
        "\n".join(_section(f"sources.{name}", SourceConfig, {"dsn": dsn}))
        for name, dsn in sources.items()
    ]
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _section(name: str, kind: type, given: Mapping[str, str]) -> Iterator[str]:
    yield f"[{name}]"
    for shown_key, default, meaning in documented(kind):
        key = shown_key.strip("`")
        yield from _comment(meaning)
        if key in given:
            yield f"{key} = {toml_text(given[key])}"
        elif default.startswith("`") and default != _NOTHING:
            value = default.strip("`").replace("NAME", name.rpartition(".")[2])
            yield f"# {key} = {value}"
        else:
            yield f"# {key}: {'nothing' if default == _NOTHING else default}"
        yield ""


def _comment(meaning: str) -> list[str]:
    """Return a sentence in Markdown as comments: pages by their names, words without quotes."""
    text = _LINK.sub(r"\1", meaning).replace("`", "")
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")
