"""Write the tables of keys in docs/configuration.md from their declarations; a test holds them.

python scripts/document_settings.py
"""

from __future__ import annotations

import re
from pathlib import Path

from pgrepl.config.keys import documented
from pgrepl.config.model import SECTIONS, SourceConfig
from pgrepl.config.rules import RuleConfig

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"

#: Sections that there may be several of.
LISTS = {"[sources.NAME.rules]": RuleConfig}

_HEAD = "| key | default | meaning |\n|---|---|---|\n"
_TABLE = re.escape(_HEAD) + r"(?:\|[^\n]*\n)*"


def render(page: str) -> str:
    """Return the page with its tables made again."""
    for name, kind in {**SECTIONS, "sources.NAME": SourceConfig, **LISTS}.items():
        heading = f"\n## `[{name}]`\n"
        before, found, after = page.partition(heading)
        if not found:
            raise LookupError(f"docs/configuration.md has no section [{name}]")
        rows = "".join(f"| {' | '.join(row)} |\n" for row in documented(kind))
        after = re.sub(_TABLE, lambda _, rows=rows: _HEAD + rows, after, count=1)
        page = before + found + after
    return page


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
