"""What stands on disk is what gets installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import pgrepl
from pgrepl.throwaway.binaries import MINIMUM_MAJOR

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
FOLDERS = SETUPTOOLS["package-dir"]
NOT_PACKAGED = {"tests", "bench", "build"}


def folders_with_code() -> set[str]:
    return {
        str(path.parent.relative_to(ROOT))
        for path in ROOT.glob("*/**/__init__.py")
        if path.relative_to(ROOT).parts[0] not in NOT_PACKAGED
        and not path.relative_to(ROOT).parts[0].startswith(".")
    }


def test_every_file_that_is_compiled_is_declared():
    (extension,) = SETUPTOOLS["ext-modules"]
    on_disk = {str(path.relative_to(ROOT)) for path in (ROOT / "core/native").glob("*.[ch]")}
    assert {*extension["sources"], *extension["depends"]} == on_disk
    assert extension["optional"]


def test_every_package_on_disk_is_declared():
    assert folders_with_code() == set(FOLDERS.values())
    assert sorted(SETUPTOOLS["packages"]) == sorted(FOLDERS)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # The build writes into the tree it builds from, so it gets a copy of what git would ship.
    tree = folder / "tree"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, (name.decode() for name in names)):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index"]
    # As on a machine without a compiler; with one, the set-up of these tests has compiled it.
    subprocess.run(
        [*pip, "--no-build-isolation", "-w", folder, tree],
        env={**os.environ, "CC": "/bin/false"},
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_wheel_holds_every_module_and_sql_file_on_disk(wheel):
    expected = {"pgrepl/py.typed", "pgrepl/log4j2.properties"}
    for package, folder in FOLDERS.items():
        inside = package.replace(".", "/")
        for pattern in ("*.py", "sql/*.sql", "page/*"):
            for path in (ROOT / folder).glob(pattern):
                expected.add(f"{inside}/{path.relative_to(ROOT / folder)}")
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_wheel_brings_the_command(wheel):
    (entry_points,) = (n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    assert "pgrepl = pgrepl.cli.__main__:main" in wheel.read(entry_points).decode()


def test_wheel_runs_where_nothing_but_its_dependencies_is_installed(wheel, tmp_path):
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    # A path in a .pth file brings the dependencies, and not the editable install among them.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "-q"]
    subprocess.run([*pip, "--no-deps", "--no-index", wheel.filename], check=True)

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, env={"LC_ALL": "C"}
        )
        return done.stdout

    found = run(environment / "bin" / "python", "-c", "import pgrepl; print(pgrepl.__file__)")
    assert Path(found.strip()).is_relative_to(site)
    program = environment / "bin" / "pgrepl"
    assert run(program, "--version").startswith(f"pgrepl {pgrepl.__version__}")
    assert "Usage: pgrepl doctor" in run(program, "doctor", "--help")
    # Most of their SQL is read when they are imported.
    modules = [name for name in wheel.namelist() if name.endswith(".py")]
    names = [name.removesuffix(".py").removesuffix("/__init__") for name in modules]
    code = "import importlib, sys; print(*map(importlib.import_module, sys.argv[1:]), sep='\\n')"
    imported = run(
        environment / "bin" / "python", "-c", code, *(name.replace("/", ".") for name in names)
    )
    assert len(names) == imported.count(f"from '{site}/pgrepl/") > 500


def test_pins_hold_every_direct_dependency_and_no_index():
    lines = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in pin and "/" not in pin and not pin.startswith("-") for pin in pins)
    pinned = {pin.split("==")[0].lower().replace("_", "-") for pin in pins}
    project = PROJECT["project"]
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    direct = {w.split(">")[0].split("[")[0].lower().replace("_", "-") for w in wanted}
    direct.remove("pgrepl")  # its own extras, which are among the wanted
    assert direct <= pinned


def test_workflow_tests_every_supported_version():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")

    def versions(name: str) -> list[list[str]]:
        return [
            re.findall(r'"([\d.]+)"', found) for found in re.findall(rf"{name}: (\[.+\])", workflow)
        ]

    lowest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert {found[0] for found in versions("python")} == {lowest}
    assert [found[0] for found in versions("postgresql")] == [str(MINIMUM_MAJOR)]
