"""What Debezium loses of values before it sends them, by how a column is sent. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgrepl.decoding.records.schema import Field

__all__ = ["find_losses", "loss_of"]

_DECIMAL = "NaN and Infinity come as null: set Debezium's decimal.handling.mode=string"
_DATE = (
    "infinite dates are parked, and years before 1 come from a snapshot as years after it: set"
    " Debezium's time.precision.mode=isostring"
)
_INTERVAL = "rows with an interval are parked: set Debezium's interval.handling.mode=string"

_LOSSES: Mapping[str, str] = {
    "org.apache.kafka.connect.data.Decimal": _DECIMAL,
    "io.debezium.data.VariableScaleDecimal": _DECIMAL,
    "org.apache.kafka.connect.data.Date": _DATE,
    "io.debezium.time.Date": _DATE,
    "io.debezium.time.MicroDuration": _INTERVAL,
    "io.debezium.time.NanoDuration": _INTERVAL,
}


def loss_of(field: Field) -> str | None:
    """Return what is lost of a column's values, and what to do; None: nothing that is known."""
    found = None if field.logical is None else _LOSSES.get(field.logical)
    if found is None and field.type == "array" and field.parts:
        return loss_of(field.parts[0])
    return found


def find_losses(row: Field) -> Iterator[tuple[str, str]]:
    """Return the columns of a row of which something is lost, and what."""
    for column in row.parts:
        loss = loss_of(column)
        if loss is not None:
            yield column.name, loss
