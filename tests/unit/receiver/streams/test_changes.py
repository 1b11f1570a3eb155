"""Which records the changes of a segment were made of, as whoever applies them finds it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.pgoutput import PgoutputPayload, writing
from pgrepl.receiver.streams.record import Record
from tests.support.streams.stream_intake import Outlet, layouts_of

TABLES = ("orders", "lines", "äpfel")
#: Table, topic and partition, how much further in it; whether two records are one change.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(TABLES),
        st.tuples(st.sampled_from(["srv.public.orders", "é"]), st.integers(0, 2)),
        st.sampled_from([1, 1, 1, 2, 70_000_000_000]),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=60,
)


def record(place, offset):
    return Record(place, offset, offset + 1, None, None, 0)


@given(STEPS, st.sampled_from([1, 200, 1 << 20]), st.integers(0, 80))
def test_every_change_is_known_by_its_records(steps, limit_bytes, serial_at):
    outlet = Outlet(limit_bytes)
    layouts = layouts_of({name: {"id": "integer"} for name in TABLES})
    offsets: dict[tuple[str, int], int] = {}
    expected: dict[str, list[tuple[int, list[tuple[str, int, int]]]]] = {}
    for number, (name, place, step, is_double) in enumerate(steps):
        layout = layouts.found(("public", name), ("id",), ("id",), is_whole=True)
        offset = offsets[place] = offsets.get(place, 0) + step
        records = [record(place, offset - 1)] if is_double else []
        records.append(record(place, offset))
        message = writing.insert(layout.oid, [b"%d" % number])
        outlet.gathered.add(layout, message, 0, records, is_serial=number == serial_at)
        own = [(*record.place, record.offset) for record in records]
        expected.setdefault(name, []).append((number, own))

    decoder = PgoutputPayload("UTF8")
    found: dict[str, list[tuple[int, list[tuple[str, int, int]]]]] = {}
    for part in outlet.end():
        payload = part.payload[0]
        messages = decoder.split(payload)
        assert decoder.split(decoder.join(messages)) == messages
        for name in TABLES:
            extracted = decoder.extract(payload, ("public", name))
            for begin, change in zip(extracted[::2], extracted[1::2], strict=True):
                assert decoder.names_records(begin)
                places: list[tuple[str, int, int]] = list(decoder.read_begin(begin).records)
                row = decoder.read_row(change)
                found.setdefault(name, []).append((int(str(row["id"])), places))
    assert found == expected
