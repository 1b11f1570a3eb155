"""Judge generated columns of a source that is read through pgoutput. Pure."""

from __future__ import annotations

from pgrepl.config.model import SourceConfig
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.generated_facts import GeneratedColumns
from pgrepl.source_code.locale import reason_of_locale

__all__ = ["check_generated_columns"]


def check_generated_columns(
    source: SourceConfig, found: GeneratedColumns | None, target_locale: str | None
) -> Finding:
    """Columns that the target does not compute itself are sent; None: all are, or it is unknown."""
    if found is None:
        return Finding.ok("generated-columns", "their values are sent")
    if source.trust_code:
        return Finding.ok("generated-columns", "the target computes them all")
    if target_locale is None and found.columns:
        return Finding.skipped(
            "generated-columns", "cannot be judged before the target can be read"
        )
    objects = []
    for column in found.columns:
        if column.column in source.rules.omitted(column.schema, column.table):
            continue
        if column.is_code:
            objects.append(f"{column.name} (code of the source)")
        elif target_locale and reason_of_locale(column.dependence, found.locale, target_locale):
            objects.append(f"{column.name} (the locale of the source)")
    if not objects:
        return Finding.ok("generated-columns", "the target computes them all")
    return Finding(
        "generated-columns",
        Status.WARNING,
        "pgoutput sends no generated columns before PostgreSQL 18, and the target does not compute"
        f" these: at their next change their tables are parked: {listed(objects)}",
        Remedy(then='set plugin = "wal2json" in pgrepl.toml, or omit the columns by rules'),
        tuple(objects),
    )
