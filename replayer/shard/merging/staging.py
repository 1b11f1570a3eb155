"""Bring the net change of a table to the target by COPY: into a staging table, or straight into it.

A staging table has a row for each row of the table that changes: ``op`` says how (I insert, U
update, M move to another key, D delete), ``grp`` which columns it carries, ``o1`` … the key it had
before, ``c1`` … the row. That of a table without a key has ``n`` instead: how many more or fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg.sql import SQL, Composable, Identifier, Literal

from pgrepl.decoding.changes import NULL, Change, Key, Layout, Run
from pgrepl.decoding.shape import Shape
from pgrepl.native import native
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.fold import KeyedNet, MultisetNet, RowState, UpdatedRows
from pgrepl.replayer.shard.merging.packing import PACK, pack_rows, packed_columns, read_types

__all__ = [
    "StagingTable",
    "copy_inserts",
    "copy_rows",
    "create_staging",
    "join_rows",
    "last_state",
    "staging_cast",
    "write_staging",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingTable:
    """A staging table that is written. It can travel from a task to the driver."""

    shape: Shape
    #: Schema and name of the staging table.
    place: tuple[str, str]
    #: The columns by which rows are found; empty: the table is a multiset.
    key: tuple[str, ...] = ()
    #: The columns that the rows of each group carry.
    groups: tuple[tuple[str, ...], ...] = ()
    #: The rows of each kind and group; "D" has no group.
    counts: dict[tuple[str, int], int]
    #: Columns that had no room: their places in the pack, and their types.
    packed: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    #: Whether nobody knows which rows were there before.
    is_upsert: bool = False

    @property
    def identifier(self) -> Identifier:
        """The staging table in a statement."""
        return Identifier(*self.place)

    def count(self, ops: str) -> int:
        """Return how many rows are of these kinds."""
        return sum(count for (op, _), count in self.counts.items() if op in ops)


def copy_inserts(connection: Connection, shape: Shape, runs: Sequence[Run], encoding: str) -> None:
    """Write new rows straight into the table."""
    for run in runs:
        rows = join_rows(run.changes, len(run.layout.columns) + 1)
        copy_rows(connection, shape.identifier, run.layout.columns, rows, encoding)


def join_rows(changes: list[Change], end: int, head: bytes = b"") -> Sequence[bytes]:
    """Return the rows of changes whose values end there, many in one where that is faster."""
    if native is not None and changes and end > 1:
        return [native.join_rows(changes, end, head)]
    return [head + b"\t".join(change[1:end]) for change in changes]


def write_staging(
    connection: Connection,
    shape: Shape,
    net: KeyedNet | MultisetNet,
    place: tuple[str, str],
    encoding: str,
    *,
    is_made: bool = False,
) -> StagingTable:
    """Stage the net change of a table; ``is_made``: the staging table is there, and empty."""
    if not is_made:
        create_staging(connection, shape, net, place)
    if isinstance(net, MultisetNet):
        return _stage_multiset(connection, shape, net, place, encoding)
    return _stage_keyed(connection, shape, net, place, encoding)


def create_staging(
    connection: Connection,
    shape: Shape,
    net: KeyedNet | MultisetNet,
    place: tuple[str, str],
) -> None:
    """Make the staging table for a net change, and for any other of the table with its key."""
    if isinstance(net, MultisetNet):
        _create(connection, shape, place, [SQL("null::bigint as n")], net.columns)
        return
    key_columns = [
        SQL("t.{}{} as {}").format(Identifier(name), staging_cast(shape, name), Identifier(f"o{n}"))
        for n, name in enumerate(net.key)
    ]
    heads = [SQL('null::"char" as op'), SQL("null::smallint as grp"), *key_columns]
    packed = packed_columns(shape, net.key, len(net.key) + 2)
    _create(connection, shape, place, heads, shape.carried, packed=packed)


def _stage_keyed(
    connection: Connection,
    shape: Shape,
    net: KeyedNet,
    place: tuple[str, str],
    encoding: str,
) -> StagingTable:
    writer = _KeyedWriter(shape, net)
    rows = writer.rows()
    packed = packed_columns(shape, net.key, len(net.key) + 2)
    kept = [name for name in shape.carried if name not in set(packed)]
    columns = ["op", "grp"]
    if writer.has_old_keys:
        columns += [f"o{n}" for n in range(len(net.key))]
    if packed:
        single = b"\n".join(rows).split(b"\n") if rows else ()
        rows = list(pack_rows(single, shape, packed, len(columns)))
    places = {name: n for n, name in enumerate(shape.carried)}
    columns += [f"c{places[name]}" for name in kept] + [PACK] * bool(packed)
    copy_rows(connection, Identifier(*place), columns, rows, encoding)
    return StagingTable(
        shape=shape,
        place=place,
        key=net.key,
        groups=tuple(writer.groups),
        counts=writer.counts,
        packed=read_types(connection, shape, packed),
        is_upsert=net.is_upsert,
    )


def _stage_multiset(
    connection: Connection,
    shape: Shape,
    net: MultisetNet,
    place: tuple[str, str],
    encoding: str,
) -> StagingTable:
    changed = {row: count for row, count in net.counts.items() if count}
    rows = [b"\t".join((b"%d" % count, *row)) for row, count in changed.items()]
    columns = ["n", *(f"c{n}" for n in range(len(net.columns)))]
    copy_rows(connection, Identifier(*place), columns, rows, encoding)
    counts = {
        ("I", 0): sum(count for count in changed.values() if count > 0),
        ("D", 0): -sum(count for count in changed.values() if count < 0),
    }
    return StagingTable(shape=shape, place=place, groups=(net.columns,), counts=counts)


class _KeyedWriter:
    """Makes the rows of a staging table."""

    def __init__(self, shape: Shape, net: KeyedNet) -> None:
        self._shape = shape
        self._net = net
        self.groups: dict[tuple[str, ...], int] = {}
        self.counts: dict[tuple[str, int], int] = {}
        self.has_old_keys = bool(net.removed) or (
            not isinstance(net.rows, UpdatedRows)
            and any(
                state.old_key is not None and state.old_key != key
                for key, state in net.rows.items()
            )
        )

    def rows(self) -> list[bytes]:
        """Return the rows, many in one where nothing but their values differs."""
        carried = self._shape.carried
        updated = self._net.rows
        if isinstance(updated, UpdatedRows) and updated.layout.columns == carried:
            self.groups[carried] = 0
            self.counts["U", 0] = len(updated)
            return list(join_rows(updated.changes, len(carried) + 1, self._head("U", 0, None)))
        counts: Counter[tuple[str, int]] = Counter()
        rows: list[bytes] = []
        plain: dict[tuple[str, Layout], list[Change]] = {}
        # Nearly all rows come in long runs.
        run_op, run_layout, run = "", None, None
        for key, state in self._net.rows.items():
            old_key, layout = state.old_key, state.layout
            op = "I" if old_key is None else "U" if old_key == key else "M"
            if op == "M" or state.older or layout.columns != carried:
                columns, values = last_state(state, carried, self._net.key, key)
                group = self.groups.setdefault(columns, len(self.groups))
                counts[op, group] += 1
                rows.append(self._head(op, group, old_key) + b"\t".join(values))
                continue
            if run is None or op != run_op or layout is not run_layout:
                run_op, run_layout = op, layout
                run = plain.setdefault((op, layout), [])
            run.append(state.change)
        for (op, _), changes in plain.items():
            group = self.groups.setdefault(carried, len(self.groups))
            counts[op, group] += len(changes)
            rows += join_rows(changes, len(carried) + 1, self._head(op, group, None))
        empty = b"\t".join([NULL] * len(carried))
        rows += [b"D\t0\t%b\t%b" % (_key_text(key), empty) for key in self._net.removed]
        if self._net.removed:
            counts["D", 0] = len(self._net.removed)
        self.counts = dict(counts)
        return rows

    def _head(self, op: str, group: int, old_key: Key | None) -> bytes:
        """Return what stands before the row itself."""
        head = [op.encode(), b"%d" % group]
        if self.has_old_keys:
            head += _key_values(old_key) if op == "M" else [NULL] * len(self._net.key)
        return b"\t".join([*head, b""])


def last_state(
    state: RowState, carried: tuple[str, ...], key_names: tuple[str, ...], key: Key
) -> tuple[tuple[str, ...], Sequence[bytes]]:
    """Return the columns that a row carries, and the values of all that are staged."""
    layout = state.layout
    values = layout.values(state.change)
    if layout.columns == carried and not state.older:
        return carried, values
    found: dict[str, bytes] = {}
    if state.old_key is not None:
        # A key column that is unchanged and too big to be in the row is known from the key.
        found.update(zip(key_names, _key_values(key), strict=True))
    for older, change in (*state.older, (layout, state.change)):
        found.update(zip(older.columns, older.values(change), strict=True))
    columns = tuple(name for name in carried if name in found)
    return columns, [found.get(name, NULL) for name in carried]


def _key_values(key: Key) -> Sequence[bytes]:
    return (key,) if isinstance(key, bytes) else key


def _key_text(key: Key) -> bytes:
    return key if isinstance(key, bytes) else b"\t".join(key)


def _create(
    connection: Connection,
    shape: Shape,
    place: tuple[str, str],
    heads: Sequence[Composable],
    columns: Sequence[str],
    *,
    packed: Collection[str] = (),
) -> None:
    """Make a staging table whose columns have the types and collations of the table's."""
    selected = [
        SQL("t.{}{} as {}").format(Identifier(name), staging_cast(shape, name), Identifier(f"c{n}"))
        for n, name in enumerate(columns)
        if name not in packed
    ]
    if packed:
        selected.append(SQL("null::text[] as {}").format(Identifier(PACK)))
    schema, name = place
    is_temporary = schema == "pg_temp"
    connection.execute(
        SQL("create {} table {}{} as select {} from only {} t with no data").format(
            SQL("temporary" if is_temporary else "unlogged"),
            Identifier(name) if is_temporary else Identifier(*place),
            SQL(" on commit drop" if is_temporary else ""),
            SQL(", ").join([*heads, *selected]),
            shape.identifier,
        )
    )


def staging_cast(shape: Shape, name: str) -> Composable:
    """Return the cast to the type below a domain: absent columns are null, whatever it says."""
    staging_type = shape.by_name[name].staging_type
    return SQL("") if staging_type is None else SQL("::{}").format(Identifier(*staging_type))


def copy_rows(
    connection: Connection,
    table: Composable,
    columns: Iterable[str],
    rows: Sequence[bytes],
    encoding: str,
) -> None:
    """Send rows whose texts are in an encoding; the server converts them to its own."""
    if not rows:
        return
    if encoding == "SQL_ASCII":
        # The server would take whatever bytes come, and have them in a text that is none.
        encoding = connection.info.parameter_status("server_encoding") or "UTF8"
    statement = SQL("copy {} ({}) from stdin (encoding {})").format(
        table, SQL(", ").join(map(Identifier, columns)), Literal(encoding)
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(b"\n".join(rows))
        copy.write(b"\n")
