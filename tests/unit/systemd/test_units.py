"""Unit files that systemd takes without a word, and jobs that cron does not cut."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pgrepl.errors import ConfigError
from pgrepl.systemd import Installation, make_crontab, make_units
from pgrepl.systemd.units import permanent_exit_codes
from tests.support.program import COMMAND, run_pgrepl

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def installation(**changes) -> Installation:
    given = {
        "program": Path(COMMAND[0]),
        "config": Path("/etc/pgrepl/pgrepl.toml"),
        "user": "root",
        "group": "root",
        "sources": ["shop", "crm_2"],
    }
    return Installation(**{**given, **changes})


def write_units(folder: Path, made: Installation) -> list[Path]:
    for name, text in make_units(made).items():
        (folder / name).write_text(text, encoding="utf-8")
    receivers = [folder / f"pgrepl-receive@{name}.service" for name in made.sources]
    for receiver in receivers:
        receiver.symlink_to("pgrepl-receive@.service")
    export = folder / "pgrepl-export@orders.service"
    export.symlink_to("pgrepl-export@.service")
    return [*receivers, export, folder / "pgrepl-replay.service", folder / "pgrepl.target"]


FILES = {
    "pgrepl.target",
    "pgrepl-receive@.service",
    "pgrepl-replay.service",
    "pgrepl-export@.service",
}


def setting(text: str, name: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}="))
    return line.partition("=")[2]


@needs_systemd
@pytest.mark.parametrize(
    ("folder", "config"), [("plain", "/a/b.toml"), ("50% off $HOME", '/50% $a "q" \\ \'/b.toml')]
)
def test_systemd_has_nothing_to_say_about_the_units(tmp_path, folder, config):
    # The program must exist where the unit says, whatever the folder is called.
    place = tmp_path / folder
    place.mkdir()
    program = place / "pgrepl"
    program.symlink_to(COMMAND[0])
    units = tmp_path / "units"
    units.mkdir()
    paths = write_units(units, installation(program=program, config=Path(config)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "pgrepl" in line or str(units) in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_program_that_systemd_cannot_start_is_refused():
    with pytest.raises(ConfigError, match="cannot start a program"):
        make_units(installation(program=Path('/opt/a"b/pgrepl')))


@needs_systemd
def test_mistake_in_a_unit_would_be_noticed(tmp_path):
    units = write_units(tmp_path, installation())
    text = units[-2].read_text(encoding="utf-8")
    units[-2].write_text(text.replace("Restart=on-failure", "Restart=perhaps"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", units[-2]],
        capture_output=True,
        text=True,
        check=False,
    )
    # Older versions say "restart specifier", newer ones name the setting.
    assert "perhaps" in done.stderr


@needs_systemd
@pytest.mark.parametrize(
    "unit",
    ["pgrepl-receive@shop.service", "pgrepl-replay.service", "pgrepl-export@orders.service"],
)
def test_units_are_exposed_little(tmp_path, unit):
    write_units(tmp_path, installation(user="pgrepl", group="pgrepl"))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=25", tmp_path / unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_receiver_speaks_to_systemd_and_its_watchdog():
    text = make_units(installation())["pgrepl-receive@.service"]
    assert setting(text, "Type") == "notify"
    assert setting(text, "WatchdogSec") == "120"
    assert setting(text, "ExecStart").endswith(" receive %i --config /etc/pgrepl/pgrepl.toml")


def test_options_of_an_export_stand_in_a_file_of_its_instance():
    text = make_units(installation())["pgrepl-export@.service"]
    assert "EnvironmentFile=/etc/pgrepl/export/%i\n" in text
    run = "export $PGREPL_EXPORT --config /etc/pgrepl/pgrepl.toml"
    assert setting(text, "ExecStart").endswith(run)


def test_what_a_person_must_mend_is_not_restarted():
    assert permanent_exit_codes() == [2, 10, 40, 50, 60]
    for name in ("pgrepl-receive@.service", "pgrepl-replay.service", "pgrepl-export@.service"):
        text = make_units(installation())[name]
        assert setting(text, "RestartPreventExitStatus") == "2 10 40 50 60"
        assert setting(text, "Restart") == "on-failure"


def test_target_wants_every_source_and_the_replay():
    wanted = setting(make_units(installation())["pgrepl.target"], "Wants").split()
    assert wanted == [
        "pgrepl-receive@shop.service",
        "pgrepl-receive@crm_2.service",
        "pgrepl-replay.service",
    ]


def test_crontab_has_a_job_per_source_and_no_bare_percent():
    text = make_crontab(installation(config=Path("/etc/50% off/it's.toml")))
    jobs = [line for line in text.splitlines() if re.match(r"[*\d]", line)]
    assert [re.findall(r"receive (\w+) --once", job) for job in jobs][:2] == [["shop"], ["crm_2"]]
    assert any(" replay --once" in job for job in jobs)
    assert not any(re.search(r"(?<!\\)%", job) for job in jobs)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "pgrepl.toml"
    path.write_text("[target]\ndsn='dbname=w'\n[sources.shop]\ndsn='dbname=a'\n")
    return path


def test_program_prints_units_with_its_own_paths(config):
    done = run_pgrepl("systemd", "--config", config, "--user", "repl")
    assert done.returncode == 0, done.stderr
    assert f"ExecStart={COMMAND[0]} receive %i --config {config}" in done.stdout
    assert done.stdout.count("User=repl\nGroup=repl\n") == 3
    assert "# --- pgrepl.target" in done.stdout


def test_program_prints_json_and_a_crontab(config):
    units = json.loads(run_pgrepl("systemd", "--config", config, "--json").stdout)
    assert set(units) == FILES
    assert "receive shop --once" in run_pgrepl("systemd", "--cron", "--config", config).stdout


def test_files_are_written_again_but_never_over_those_of_others(config, tmp_path):
    folder = tmp_path / "units"
    folder.mkdir()
    for _ in range(2):
        done = run_pgrepl("systemd", "--config", config, "--output", folder)
        assert done.returncode == 0, done.stderr
        assert {path.name for path in folder.iterdir()} == FILES
    (folder / "pgrepl-replay.service").write_text("mine")
    (folder / "pgrepl.target").unlink()
    done = run_pgrepl("systemd", "--config", config, "--output", folder)
    assert (done.returncode, (folder / "pgrepl-replay.service").read_text()) == (10, "mine")
    assert not (folder / "pgrepl.target").exists()


def test_folder_that_is_not_there_is_a_usage_error(config, tmp_path):
    done = run_pgrepl("systemd", "--config", config, "--output", tmp_path / "none")
    assert done.returncode == 2
