"""``pgrepl init`` writes a file that the program reads, and never over another."""

from __future__ import annotations

import re

import pytest

from pgrepl.config.file import load_config
from pgrepl.config.template import make_template
from tests.support.program import run_pgrepl

TARGET = "host=w dbname=warehouse user=pgrepl"
SOURCE = "host=s dbname=shop user=pgrepl"


def init(tmp_path, *arguments):
    return run_pgrepl("init", "--output", tmp_path / "pgrepl.toml", *arguments)


def test_file_is_read_back_with_every_default(tmp_path):
    done = init(tmp_path, "--target", TARGET, "--source", f"shop={SOURCE}")
    assert (done.returncode, done.stderr) == (0, "next: pgrepl config check; pgrepl doctor\n")
    config = load_config(tmp_path / "pgrepl.toml")
    assert config.target.dsn.text == TARGET
    assert config.sources["shop"].dsn.text == SOURCE


def test_what_is_commented_out_is_the_default(tmp_path):
    text = make_template(TARGET, {"shop": SOURCE})
    plain = tmp_path / "plain.toml"
    plain.write_text(text)
    every = tmp_path / "every.toml"
    # Keys, not sentences: a value follows the equals sign.
    every.write_text(re.sub(r"(?m)^# (\w+ = )", r"\1", text))
    assert every.read_text() != text
    one, other = load_config(plain), load_config(every)
    for section in ("target", "spark", "replay", "housekeeping", "ddl", "sources"):
        assert getattr(one, section) == getattr(other, section), section


def test_file_that_exists_is_left_alone(tmp_path):
    (tmp_path / "pgrepl.toml").write_text("mine")
    done = init(tmp_path, "--target", TARGET, "--source", f"shop={SOURCE}")
    assert done.returncode == 10
    assert (tmp_path / "pgrepl.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("target", "source", "reason"),
    [
        (TARGET, "shop", "NAME=DSN"),
        (TARGET, "shop=what", "neither a libpq connection string"),
        (f"{TARGET} password=s3cret", f"shop={SOURCE}", "holds a password"),
        (TARGET, f"Shop={SOURCE}", "a source's name is"),
    ],
)
def test_what_the_program_would_not_read_is_not_written(tmp_path, target, source, reason):
    done = init(tmp_path, "--target", target, "--source", source)
    assert done.returncode in {2, 10}
    assert reason in done.stderr
    assert "s3cret" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_it_says_what_to_give(tmp_path):
    done = init(tmp_path)
    assert done.returncode == 2
    assert "--target DSN --source NAME=DSN" in done.stderr


def test_dash_prints_it(tmp_path):
    given = ("--target", TARGET, "--source", f"shop={SOURCE}")
    done = run_pgrepl("init", "--output", "-", *given, cwd=tmp_path)
    assert done.stdout == make_template(TARGET, {"shop": SOURCE})
