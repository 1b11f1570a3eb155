"""Compare a source with its copy, row for row, while replication goes on."""

from pgrepl.verify.report import (
    RowDifference,
    SequenceFinding,
    StructureDifference,
    TableReport,
    VerifyOptions,
    VerifyReport,
    Watcher,
)
from pgrepl.verify.run import verify_source

__all__ = [
    "RowDifference",
    "SequenceFinding",
    "StructureDifference",
    "TableReport",
    "VerifyOptions",
    "VerifyReport",
    "Watcher",
    "verify_source",
]
