"""Names that were chosen to do harm, in what people read, machines read and shells run."""

from __future__ import annotations

import json
import subprocess

import pytest

from pgrepl.terminal import command, json_text, printable

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "two\nlines\r",
    "\x9b31m",  # one character is enough where 8-bit controls are understood
    "\u202eright to left",
    "\x7f\ud800\U000e0001",
    "$(touch x)`touch y`;touch z",
    'it\'s "quoted" \\ and has  spaces',
    "\x1b'\\",
    "*~!#&|<>",
    "",
    "schlüssellos",
]
SHELL_SAFE = [name for name in HOSTILE if "\ud800" not in name]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_what_people_read_has_no_control_characters(name):
    assert printable(f"table {name}").isprintable()


def test_what_can_be_read_stays_as_it_is():
    assert printable('table "schlüssellos" of 東京') == 'table "schlüssellos" of 東京'


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_json_keeps_every_value_and_shows_no_control_character(name, indent):
    text = json_text({"table": name, name: [name]}, indent=indent)
    assert json.loads(text) == {"table": name, name: [name]}
    assert all(line.isprintable() for line in text.split("\n"))
    assert ("\n" in text) == (indent is not None)


@pytest.mark.parametrize("name", SHELL_SAFE, ids=ascii)
def test_command_can_be_copied_into_a_shell(name, tmp_path):
    line = command("resync", "shop", f"public.{name}", name)
    assert line.isprintable()
    shell = f"pgrepl() {{ printf '%s\\0' \"$@\"; }}\n{line}"
    done = subprocess.run(
        ["bash", "-c", shell],
        capture_output=True,
        cwd=tmp_path,
        env={"LC_ALL": "C.UTF-8"},
        check=True,
    )
    assert done.stdout.decode().split("\0")[:-1] == ["resync", "shop", f"public.{name}", name]
    assert list(tmp_path.iterdir()) == []
