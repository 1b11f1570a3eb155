"""Which envelope a source has."""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.columns import HandlingModes
from pgrepl.decoding.records.readers import make_reader
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.streams.envelopes.debezium import DebeziumUpsert
from pgrepl.receiver.streams.envelopes.debezium_exact import (
    DebeziumExact,
    ReadAgain,
    cannot_read_again,
)
from pgrepl.receiver.streams.envelopes.envelope import EnvelopeReader
from pgrepl.receiver.streams.envelopes.upsert import UpsertEnvelope
from pgrepl.receiver.streams.layouts import Layouts
from pgrepl.receiver.streams.record import Place
from pgrepl.receiver.streams.target_tables import TargetTables
from pgrepl.receiver.streams.transactions import DebeziumTransactions

__all__ = ["make_envelope"]


def make_envelope(
    config: SourceConfig,
    spool: SpoolSession,
    lane_of: Callable[[Place], Place] = lambda own: own,
    read_again: ReadAgain = cannot_read_again,
) -> EnvelopeReader:
    """Return what makes changes of the records of a source.

    ``lane_of`` returns what a partition is a piece of, where several follow one another.
    """
    stream = config.stream
    modes = HandlingModes(stream.debezium, is_plain=stream.envelope == "upsert")
    layouts = Layouts(TargetTables(spool.endpoint, config, spool.source), modes)
    reader = make_reader(config)
    if stream.envelope == "upsert":
        return UpsertEnvelope(reader, layouts)
    text = stream.debezium.get("unavailable.value.placeholder")
    placeholder = Placeholder() if text is None else Placeholder(text)
    if stream.transaction_topic:
        return DebeziumTransactions(
            reader, layouts, placeholder, stream.transaction_topic, read_again=read_again
        )
    if stream.envelope == "debezium":
        return DebeziumExact(reader, layouts, placeholder, lane_of, read_again)
    return DebeziumUpsert(reader, layouts, placeholder, lane_of)
