"""Logging, for people and for machines, on standard error.

Modules log through ``logging.getLogger(__name__)``: a lower-case event, and facts in ``extra``.
For people an event is one line followed by its facts, ``... key=value``; ``--log-format json``
makes it one JSON object a line. No fact is ever a secret or a row's value. No control character of
a name reaches a terminal: for people it is shown escaped.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from pgrepl.lsn import Lsn
from pgrepl.terminal import json_text, printable

__all__ = ["LogFormat", "configure_logging"]

LogFormat = Literal["text", "json"]

# What every record has; the rest came in by ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logging(
    log_format: LogFormat, *, is_verbose: bool, stream: TextIO | None = None
) -> None:
    """Send pgrepl's log to a stream, standard error unless given."""
    handler = _StandardError() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    logger = logging.getLogger("pgrepl")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if is_verbose else logging.INFO)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    # An LSN is an integer inside and text at the edges; JSON would show the inside.
    return {key: str(value) if isinstance(value, Lsn) else value for key, value in facts.items()}


def _at(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to whatever standard error is at the moment: a progress bar takes its place."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = [_at(record), f"{record.levelname.lower():7}", record.getMessage()]
        parts += [f"{key}={_quoted(value)}" for key, value in _facts(record).items()]
        lines = [" ".join(parts)]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        return "\n".join(map(printable, lines))


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fixed = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        # A fact never takes the place of what every line has.
        entry = {**fixed, **_facts(record), **fixed}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json_text(entry)


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or "\n" in text else text
