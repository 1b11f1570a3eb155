"""Every command: help, an example, common options, a place in the README, a quick start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from pgrepl import __version__
from pgrepl.cli.main import app
from pgrepl.native import native
from tests.support.program import COMMAND, run_pgrepl

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def commands(group=None, path=()):
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_command_has_help_an_example_and_the_common_options(path):
    command = COMMANDS[path]
    assert command.help
    assert command.epilog.startswith(f"Example: pgrepl {' '.join(path)}")
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--config", "--verbose", "--debug", "--log-format"} <= options
    assert all(p.help for p in command.params if p.name != "help")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_command_stands_in_the_readme(path):
    assert f"pgrepl {' '.join(path)}" in README


def test_version_is_printed_with_what_the_core_is_written_in():
    done = CliRunner().invoke(app, ["--version"])
    core = "Python" if native is None else "C"
    assert (done.exit_code, done.stdout) == (0, f"pgrepl {__version__} (core: {core})\n")


def test_help_does_not_import_what_is_slow():
    code = (
        "import sys, contextlib\n"
        "from pgrepl.cli.main import app\n"
        "with contextlib.suppress(SystemExit):\n"
        "    app(['--help'])\n"
        "slow = {'pyspark', 'py4j', 'psycopg', 'pydantic', 'asyncio'} & set(sys.modules)\n"
        "sys.exit(repr(slow) if slow else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "doctor" in done.stdout


def test_unknown_command_is_a_usage_error_on_standard_error():
    done = run_pgrepl("docter")
    assert (done.returncode, done.stdout) == (2, "")
    assert "docter" in done.stderr


def test_help_through_a_pipe_is_plain_text():
    done = run_pgrepl("--help")
    assert done.stdout.isascii()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_can_be_had_for_a_shell(shell):
    # Without it typer looks for a shell among the processes above, and a test may have none there.
    env = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = run_pgrepl("--show-completion", shell, env=env)
    assert done.returncode == 0
    assert "pgrepl" in done.stdout


def test_names_of_sources_are_completed(tmp_path):
    config = tmp_path / "pgrepl.toml"
    config.write_text(
        "[target]\ndsn='dbname=w'\n[sources.shop]\ndsn='dbname=a'\n[sources.crm]\ndsn='dbname=b'\n"
    )
    done = run_pgrepl(
        env={
            "PGREPL_CONFIG": str(config),
            "_PGREPL_COMPLETE": "complete_bash",
            "COMP_WORDS": "pgrepl doctor s",
            "COMP_CWORD": "2",
        }
    )
    assert done.stdout.split() == ["shop"]


def test_bug_is_reported_without_a_traceback(monkeypatch):
    monkeypatch.setattr("pgrepl.config.file.find_config", lambda *_, **__: 1 / 0)
    done = CliRunner().invoke(app, ["config", "check"])
    assert done.exit_code == 1
    assert "unforeseen ZeroDivisionError" in done.stderr
    assert "--debug" in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback(tmp_path):
    done = run_pgrepl("config", "check", "--config", tmp_path / "none.toml", "--debug")
    assert done.returncode == 10
    assert "Traceback" in done.stderr


def test_error_is_one_json_line_when_the_log_is_json(tmp_path):
    done = run_pgrepl("config", "check", "--config", tmp_path / "none.toml", "--log-format", "json")
    entry = json.loads(done.stderr)
    assert (done.returncode, entry["exit_code"], entry["level"]) == (10, 10, "error")
    assert entry["hint"]


def test_error_is_one_json_line_when_the_result_would_be_json(tmp_path):
    done = run_pgrepl("config", "show", "--config", tmp_path / "none.toml", "--json")
    assert (done.returncode, done.stdout) == (10, "")
    assert json.loads(done.stderr) == {
        "error": f"{tmp_path / 'none.toml'} does not exist",
        "hint": "Check --config, or PGREPL_CONFIG in the environment.",
        "exit_code": 10,
    }


@pytest.mark.parametrize("given", ["--json", "--log-format json", "--log-format=json"])
@pytest.mark.parametrize("command", ["status --bogus", "pause", "nothing", "status --since"])
def test_command_line_that_is_refused_is_one_json_line(given, command):
    name, *others = command.split()
    done = run_pgrepl(name, *given.split(), *others)
    entry = json.loads(done.stderr)
    assert (done.returncode, entry["exit_code"], done.stdout) == (2, 2, "")
    assert entry["hint"]


def test_program_without_a_home_reads_the_file_it_is_given(tmp_path):
    config = tmp_path / "pgrepl.toml"
    config.write_text("[target]\ndsn='dbname=w'\n[sources.shop]\ndsn='dbname=a'\n")
    done = subprocess.run(
        [*COMMAND, "config", "check", "--config", config],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "| head -c 1"])
def test_output_that_nobody_takes_is_no_traceback(tmp_path, redirection):
    config = tmp_path / "pgrepl.toml"
    config.write_text("[target]\ndsn='dbname=w'\n[sources.shop]\ndsn='dbname=a'\n")
    done = subprocess.run(
        ["sh", "-c", f'"$0" config show --config "$1" {redirection}', *COMMAND, config],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def test_pipe_is_no_configuration_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = run_pgrepl("config", "check", "--config", tmp_path / "pipe")
    assert (done.returncode, "it is not a file" in done.stderr) == (10, True)
