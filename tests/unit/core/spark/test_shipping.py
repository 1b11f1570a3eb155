"""What executors of a cluster get of us."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from pgrepl.spark.package_archive import archive_path, write_archive

ROOT = Path(__file__).parents[4]


def test_archive_holds_every_query(tmp_path):
    write_archive(tmp_path / "it.zip")
    names = zipfile.ZipFile(tmp_path / "it.zip").namelist()
    shipped = {Path(name).name for name in names if name.endswith(".sql")}
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = folders["tool"]["setuptools"]["package-dir"].values()
    queries = [path for folder in packages for path in (ROOT / folder).glob("sql/*.sql")]
    assert shipped == {path.name for path in queries}
    assert not [name for name in names if "__pycache__" in name]


def test_archive_is_importable_and_goes_with_its_process():
    program = "from pgrepl.spark.package_archive import archive_path; print(archive_path())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not Path(done.stdout.strip()).exists()
    program = (
        f"import sys; sys.path.insert(0, {str(archive_path())!r})"
        "; import pgrepl.basebackup.rows.task"
        "; from pgrepl.store.migrations import read_version; print(pgrepl.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{archive_path()}/pgrepl/__init__.py"
