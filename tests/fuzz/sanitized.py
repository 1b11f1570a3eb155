"""Feed broken input to the compiled core, built with the address and undefined sanitizers.

    PYTHONPATH=. python tests/fuzz/sanitized.py [SECONDS]

Builds it outside of the tree and starts itself again with it. What is found ends the process, with
a report of the compiler's on stderr; the seed of the round that did it is the last line on stdout.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from zlib import crc32

_BUILT = "PGREPL_SANITIZED"
_NAME = "pgrepl.native._native"
_FLAGS = ("-O1", "-g", "-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: What a mutation puts in: what the formats are made of, and what numbers are at their ends.
_PIECES = (
    *(b"", b"\n", b"\t", b"=", b"#", b"{", b'"', b"\\", b"}", b"]", b":", b"null", b"\0"),
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x01", b"99999999999"),
)


def main() -> None:
    """Build, or run what was built."""
    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    if _BUILT in os.environ:
        _load(Path(os.environ[_BUILT]))
        _run(float(seconds))
        return
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "_native.so"
        include = f"-I{sysconfig.get_paths()['include']}"
        sources = map(str, sorted(Path("core/native").glob("*.c")))
        subprocess.run(
            ["gcc", *_FLAGS, "-shared", "-fPIC", include, *sources, "-o", built], check=True
        )
        library = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
        # Python keeps what it never frees; its own allocator would hide what is read beyond.
        env = {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc", "LD_PRELOAD": library}
        done = subprocess.run(
            [sys.executable, __file__, seconds],
            env=os.environ | env | {_BUILT: str(built)},
            check=False,
        )
    sys.exit(done.returncode)


def _load(path: Path) -> None:
    """Let pgrepl find what was built in the place of what is installed."""
    spec = spec_from_file_location(_NAME, path, loader=ExtensionFileLoader(_NAME, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_NAME] = module


def _run(seconds: float) -> None:
    from pgrepl.native import native  # noqa: PLC0415  as it was loaded

    assert native is not None
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        seed = random.randrange(1 << 40)
        sys.stdout.write(f"\r{count} rounds, seed {seed} ")
        sys.stdout.flush()
        _one(native, random.Random(seed))
        count += 1
    sys.stdout.write(f"\r{count} rounds, nothing found\n")


def _one(core: Any, dice: random.Random) -> None:
    from pgrepl.decoding.pgoutput.framing import pack  # noqa: PLC0415  with the core
    from pgrepl.decoding.wal2json import Wal2JsonPayload  # noqa: PLC0415
    from pgrepl.errors import SpoolError  # noqa: PLC0415
    from pgrepl.receiver.postgres.slot.protocol import (  # noqa: PLC0415
        COPY_ROW_FRAMING,
        XLOG_DATA_FRAMING,
    )
    from tests.support.messages.routing import take_by_core  # noqa: PLC0415
    from tests.unit.decoding import test_native_changes as tuples  # noqa: PLC0415
    from tests.unit.decoding import test_native_lines as lines  # noqa: PLC0415
    from tests.unit.receiver.postgres import test_native_route as route  # noqa: PLC0415

    refused = (ValueError, IndexError, TypeError, OverflowError)
    messages = tuples.make_messages(dice, list(tuples.TABLES), dice.randrange(30))
    payload = _mutate(dice, pack(messages))
    tuples.group(core, payload, tuples.count_of(messages))
    places = _mutate(dice, dice.randbytes(8 * dice.randrange(5)))
    with suppress(*refused):
        columns = [dice.randrange(-1, 5) for _ in range(dice.randrange(4))]
        core.read_changes(payload, places, dice.randrange(-1, 5), columns, columns)
    with suppress(*refused):
        core.last_updates([(payload, places)] * dice.randrange(3), dice.randrange(-1, 5), 1)
    printed = lines.make_lines(dice, list(lines.TABLES), dice.randrange(30))
    text = _mutate(dice, b"\n".join(printed))
    with suppress(*refused, SpoolError):
        Wal2JsonPayload("UTF8").group_by_table(
            lambda name: lines.Destination(name[1])
        ).take_payload(text, len(printed), 0)
    broken = [_mutate(dice, line) if dice.random() < 0.2 else line for line in printed]
    short = core.shorten(broken)
    if short is not None:
        assert core.expand(short) == b"\n".join(broken)
        with suppress(ValueError):
            core.expand(_mutate(dice, short))
    plugin = dice.choice([*route.STREAMS])
    framing = dice.choice([XLOG_DATA_FRAMING, COPY_ROW_FRAMING])
    frames = route.framed(route.STREAMS[plugin](dice, 3), framing)
    frames = [_mutate(dice, frame) if dice.random() < 0.1 else frame for frame in frames]
    route.run(take_by_core, plugin, frames, framing, 40, limit_bytes=1000)
    _deal(core, dice)


def _deal(core: Any, dice: random.Random) -> None:
    """Deal and join changes: tuples of Python's, with values and places that may be wrong."""
    changes: list[Any] = [
        tuple(dice.randbytes(dice.randrange(20)) for _ in range(dice.randrange(1, 6)))
        for _ in range(dice.randrange(20))
    ]
    if dice.random() < 0.5:
        changes = [(dice.choice(b"IUD").to_bytes(), *change[1:]) for change in changes]
    if changes and dice.random() < 0.2:
        changes[dice.randrange(len(changes))] = dice.choice([None, (), (b"U", None), [b"U", b"1"]])
    keys: list[Any] = [
        tuple(dice.randrange(-1, 6) for _ in range(dice.choice([0, 1, 2, 33]))) for _ in range(2)
    ]
    refused = (ValueError, IndexError, TypeError, OverflowError)
    with suppress(*refused):
        count = dice.randrange(-1, 9)
        dealt = core.deal(changes, keys[0], count)
        assert sorted(map(id, changes)) == sorted(id(one) for slice_ in dealt for one in slice_)
        numbers = [{_number(one, keys[0]) % count for one in slice_} for slice_ in dealt]
        assert all(own <= {number} for number, own in enumerate(numbers))
    with suppress(*refused):
        is_fixed = core.has_fixed(changes, *keys)
        updates = [change for change in changes if change[0] == b"U"]
        assert is_fixed == all(
            [change[at] for at in keys[0]] == [change[at] for at in keys[1]] for change in updates
        )
    with suppress(*refused):
        end, head = dice.randrange(-1, 6), dice.randbytes(3)
        rows = [head + b"\t".join(change[1:end]) for change in changes]
        assert core.join_rows(changes, end, head) == b"\n".join(rows)


def _number(change: Sequence[bytes], places: Sequence[int]) -> int:
    return crc32(b"\t".join(change[at] for at in places))


def _mutate(dice: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(found) + 1)
        size = dice.choice([0, 1, 2, 4, 9])
        piece = dice.choice(_PIECES) if dice.random() < 0.7 else dice.randbytes(size)
        found[at : at + size] = piece
    return bytes(found[: dice.randrange(len(found) + 1)] if dice.random() < 0.1 else found)


if __name__ == "__main__":
    main()
