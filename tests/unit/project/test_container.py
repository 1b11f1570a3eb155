"""The image and the compose file fit each other and the program; nothing is built here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import typer

from pgrepl.cli.main import app

ROOT = Path(__file__).parents[3]
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docs/examples/compose.yaml").read_text(encoding="utf-8")


def test_image_has_every_extra_and_no_privileges():
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    (installed,) = re.findall(r"'\.\[([a-z,]+)\]'", IMAGE)
    assert set(installed.split(",")) == extras.keys() - {"dev"}
    users = re.findall(r"^USER (\d+)$", IMAGE, re.MULTILINE)
    assert users == re.findall(r"useradd .*--uid (\d+)", IMAGE) == ["999"]
    assert IMAGE.index("USER 999") < IMAGE.index("ENTRYPOINT")


def test_services_run_commands_that_there_are_under_the_user_of_the_image():
    names = typer.main.get_command(app).commands.keys()  # type: ignore[attr-defined]
    commands = re.findall(r"^    command: \[(\w+)", COMPOSE, re.MULTILINE)
    assert commands
    assert set(commands) <= names
    assert set(re.findall(r"uid (\d+)", COMPOSE)) == {"999"}


def test_what_the_services_mount_is_where_the_image_looks():
    mounted = re.findall(r"^ +- (\S+?):(/\S+?)(?::ro)?(?:\s|$)", COMPOSE, re.MULTILINE)
    assert {place for name, place in mounted if name == "./pgrepl.toml"} == {
        *re.findall(r"PGREPL_CONFIG=(\S+)", IMAGE)
    }
    # A volume takes over whose its folder is in the image, if it is there.
    (cache,) = [place for name, place in mounted if name == "cache"]
    assert re.search(rf"install -d -o pgrepl -m 0700 {re.escape(cache)}$", IMAGE, re.MULTILINE)
    assert "PGPASSFILE=/run/secrets/pgpass" in IMAGE
    assert re.search(r"^secrets:\n  pgpass:$", COMPOSE, re.MULTILINE)
