"""The parts of Debezium's schemas that are the same for all tables."""

from __future__ import annotations

from pgrepl.decoding.records.schema import Field
from pgrepl.export.record import Schemas

__all__ = ["BLOCK_FIELD", "SOURCE_FIELD", "TRANSACTION_SCHEMAS", "plain", "times"]


def plain(name: str, kind: str, *, is_optional: bool = True) -> Field:
    """Return a field without parts."""
    return Field(name, kind, is_optional=is_optional)


def times() -> tuple[Field, ...]:
    """Return the fields of one time in three units."""
    return tuple(plain(name, "int64") for name in ("ts_ms", "ts_us", "ts_ns"))


SOURCE_FIELD = Field(
    "source",
    "struct",
    "io.debezium.connector.postgresql.Source",
    is_optional=False,
    parts=(
        plain("version", "string", is_optional=False),
        plain("connector", "string", is_optional=False),
        plain("name", "string", is_optional=False),
        plain("ts_ms", "int64", is_optional=False),
        plain("snapshot", "string"),
        plain("db", "string", is_optional=False),
        plain("sequence", "string"),
        plain("ts_us", "int64"),
        plain("ts_ns", "int64"),
        plain("schema", "string", is_optional=False),
        plain("table", "string", is_optional=False),
        plain("txId", "int64"),
        plain("lsn", "int64"),
        plain("xmin", "int64"),
        plain("origin", "string"),
        plain("origin_lsn", "int64"),
    ),
)
BLOCK_FIELD = Field(
    "transaction",
    "struct",
    "event.block",
    parts=(
        plain("id", "string", is_optional=False),
        plain("total_order", "int64", is_optional=False),
        plain("data_collection_order", "int64", is_optional=False),
    ),
)
TRANSACTION_SCHEMAS = Schemas(
    Field(
        "",
        "struct",
        "io.debezium.connector.common.TransactionMetadataKey",
        is_optional=False,
        parts=(plain("id", "string", is_optional=False),),
    ),
    Field(
        "",
        "struct",
        "io.debezium.connector.common.TransactionMetadataValue",
        is_optional=False,
        parts=(
            plain("status", "string", is_optional=False),
            plain("id", "string", is_optional=False),
            plain("event_count", "int64"),
            Field(
                "data_collections",
                "array",
                parts=(
                    Field(
                        "",
                        "struct",
                        "event.collection",
                        is_optional=False,
                        parts=(
                            plain("data_collection", "string", is_optional=False),
                            plain("event_count", "int64", is_optional=False),
                        ),
                    ),
                ),
            ),
            plain("ts_ms", "int64", is_optional=False),
        ),
    ),
)
