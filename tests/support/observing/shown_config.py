"""What ``pgrepl config show`` prints, without a program."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

from pgrepl.cli.setup.config import _masked, _print_section
from pgrepl.config.model import Config


def shown_config(config: Config) -> str:
    with redirect_stdout(io.StringIO()) as out:
        for section, values in _masked(config).items():
            _print_section(section, values)
    return out.getvalue()
