"""No name of a table, a schema or a source gets at the terminal of whoever runs a command."""

from __future__ import annotations

import io
import json
import re
import tomllib
from contextlib import redirect_stdout

import pytest
from rich.progress import Progress
from rich.text import Text
from typer.testing import CliRunner

from pgrepl.basebackup.report import CopyReport
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.cli.main import app
from pgrepl.cli.output import basebackup_output, results, status_output
from pgrepl.cli.output.status_lines import Line
from pgrepl.cli.output.verify_output import BarWatcher
from pgrepl.cli.replicate import receive
from pgrepl.cli.setup import doctor
from pgrepl.config.model import SparkConfig
from pgrepl.doctor import Area, Examination, Finding, Remedy, Status
from pgrepl.errors import ConfigError, DdlError
from pgrepl.lsn import Lsn
from pgrepl.receiver import Result
from pgrepl.store.tables.copy_work import TableProgress
from tests.support.program import run_pgrepl

NAME = "a\x1b]0;owned\x07[red]\n\x9b2J$(touch x)"
# What rich itself writes: colours, and where to go on.
OURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


def lines_without_our_own(text):
    return OURS.sub("", text).split("\n")


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """Return a function that returns what another one prints on a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")

    def show(function, *arguments, **options):
        with redirect_stdout(Screen()) as screen:
            function(*arguments, **options)
        return screen.getvalue()

    return show


@pytest.mark.parametrize("options", [[], ["--debug"]])
def test_error_and_hint(monkeypatch, options):
    def fail(*_, **__):
        raise ConfigError(f"table {NAME}", hint=f"drop {NAME}")

    monkeypatch.setattr("pgrepl.config.file.find_config", fail)
    done = CliRunner().invoke(app, ["config", "check", *options])
    assert done.exit_code == ConfigError.exit_code
    assert all(line.isprintable() for line in done.stderr.split("\n"))
    assert r"error: table a\x1b]0;owned\x07[red]\n\x9b2J" in done.stderr
    assert r"hint: drop a\x1b]" in done.stderr


def test_report_of_a_copy(shown):
    table = TableProgress("app", NAME, True, 1, 1, 1, 1, 1.0)
    left_out = LeftOut("view", NAME, "it is none of ours")
    report = CopyReport(
        source=NAME,
        outcome="copied",
        consistent_point=Lsn(1),
        target_schemas=[NAME],
        tables=[table],
        left_out=[left_out],
        seconds=1.0,
    )
    text = shown(basebackup_output.print_report, report, as_json=False)
    assert all(line.isprintable() for line in lines_without_our_own(text))
    assert "[red]" in text
    assert "next: pgrepl receive $'a\\033]0;owned" in text


def test_finding_of_doctor(shown):
    remedy = Remedy(sql=(f'drop table "{NAME}"',), then=NAME)
    finding = Finding("table", Status.FAILURE, NAME, remedy)
    examinations = [Examination(Area.SOURCE, NAME, (finding,))]
    text = shown(doctor._print_table, examinations) + shown(doctor._print_lines, examinations)
    assert all(line.isprintable() for line in lines_without_our_own(text))
    assert text.count("touch x") == 8  # the title, the message and both remedies, twice


def test_line_of_status(shown):
    line = Line(NAME, NAME, "red")
    text = shown(lambda: results.make_console().print(status_output._styled(line)))
    assert text.count("touch x") == 2  # label and text
    assert all(line.isprintable() for line in lines_without_our_own(text))


def test_console_shows_escaped_what_nobody_escaped_before(shown):
    text = shown(lambda: results.make_console().print(Text(NAME, style="red")))
    assert r"a\x1b]0;owned" in text
    assert "\x1b[31m" in text
    assert all(line.isprintable() for line in lines_without_our_own(text))


def test_bar_of_verify(shown):
    def show():
        with Progress(console=results.make_console()) as progress:
            BarWatcher(progress, NAME).begin("comparing")

    text = shown(show)
    assert "touch x" in text
    assert all(line.isprintable() for line in lines_without_our_own(text))


def test_script_is_exact_for_a_program_and_harmless_on_a_terminal(shown, capsys):
    script = f'drop table "{NAME}";\n'
    text = shown(results.print_script, script)
    assert "touch x" in text
    assert all(line.isprintable() for line in text.split("\n"))
    results.print_script(script)
    assert capsys.readouterr().out == script


def test_tables_that_lost_changes_are_quoted_for_the_shell_and_as_patterns():
    result = Result(Lsn(1), 0, 0, 0, (("app", "a.*"), ("app", "$(touch x)")))
    with pytest.raises(DdlError) as raised:
        receive._report_resyncs("shop", result)
    assert (raised.value.hint or "").endswith(r"pgrepl resync shop 'app.a\.\*' 'app.$(touch x)'")


URIS = {
    "spark.some.url": "jdbc:postgresql://ada:s3cr3t@db/shop",
    "spark.some.proxy": "http://:s3cr3t@proxy:8080",
    "spark.some.sloppy": "https://ada:s3cr3t/@:x@proxy",
    "spark.some.conninfo": "host=db password=s3cr3t",
    "spark.some.options": "-Duser=ada -Dpwd=s3cr3t",
}


def test_config_shows_no_password_whatever_the_key(tmp_path):
    path = tmp_path / "pgrepl.toml"
    conf = "\n".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in URIS.items())
    path.write_text(
        "[target]\ndsn = 'dbname=w'\n[sources.shop]\ndsn = 'dbname=a'\nexclude = ['x.\x7f\x9b']\n"
        f"[spark]\nmaster = 'k8s://https://ada:s3cr3t@here'\n[spark.conf]\n{conf}\n".replace(
            "'x.\x7f\x9b'", r'"x.\u007f\u009b"'
        )
    )
    as_toml = run_pgrepl("config", "show", "--config", path).stdout
    as_json = run_pgrepl("config", "show", "--config", path, "--json").stdout
    assert "s3cr3t" not in as_toml + as_json
    assert all(line.isprintable() for line in (as_toml + as_json).split("\n"))
    shown = tomllib.loads(as_toml)
    assert shown == json.loads(as_json)
    assert shown["spark"]["master"] == "k8s://https://ada:********@here"
    assert shown["spark"]["conf"]["spark.some.url"] == "jdbc:postgresql://ada:********@db/shop"
    assert shown["sources"]["shop"]["exclude"] == ["x.\x7f\x9b"]


def test_password_of_a_uri_is_kept_out_of_arguments_and_of_what_spark_printed():
    config = SparkConfig(conf=URIS | {"spark.some.plain": "http://db:8080/x"})
    assert config.secret_conf() == URIS
    assert config.redact("cannot reach ada with s3cr3t") == "cannot reach ada with ********"
