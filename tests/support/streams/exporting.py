"""Exports of a source that tests stream without Spark."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pgrepl import failpoint
from pgrepl.config.model import Config
from pgrepl.export.plan import ExportPlan, ExportSettings
from pgrepl.export.run import Exporter, ExportResult
from pgrepl.export.sinks.destinations import FilesDestination, make_plan
from tests.support.running.live import Live


@dataclass
class FileExport:
    """An export into a folder."""

    live: Live
    folder: Path
    envelope: str = "debezium"
    tables: tuple[str, ...] = ()
    has_snapshot: bool = False
    keep: timedelta = timedelta(days=7)
    batch_changes: int = 50_000
    file_format: Literal["json", "parquet"] = "json"
    consumer: str | None = None

    def plan(self) -> ExportPlan:
        return make_plan(
            "shop",
            FilesDestination(self.folder, timedelta(0), self.file_format),
            tables=self.tables,
            envelope=self.envelope,  # type: ignore[arg-type]
            consumer=self.consumer,
            has_snapshot=self.has_snapshot,
            has_schemas=False,
            keep=self.keep,
        )

    def run(self, *, restart: bool = False, config: Config | None = None) -> ExportResult:
        config = config or self.live.config
        settings = ExportSettings(batch_changes=self.batch_changes)
        exporter = Exporter(config, config.sources["shop"], self.plan(), settings)
        return exporter.run(once=True, restart=restart)

    def run_until_killed(self, place: str) -> bool:
        """Export in a process that dies at a failpoint; whether it got there."""
        return run_until_killed(place, self.run)

    def files(self) -> list[str]:
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return [path.relative_to(self.folder).as_posix() for path in found]

    def records(self, table: str = "") -> list[dict[str, Any]]:
        """Return the lines of a table's files, or of all, in the order of their batches."""
        paths = [p for p in self.folder.glob("*/day=*/*.jsonl") if p.parts[-3].startswith(table)]
        return [
            json.loads(line)
            for path in sorted(paths, key=lambda path: (path.name, path.parts))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]


def run_until_killed(place: str, run: Any) -> bool:
    """Run in a process that dies at a failpoint; whether it got there."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            failpoint._armed, failpoint._survived = failpoint._parse(place)
            run()
            os._exit(0)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0
