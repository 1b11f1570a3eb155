"""The documentation says what the program does."""

from __future__ import annotations

import dataclasses
import re
import runpy
from pathlib import Path

import pytest

from pgrepl import errors
from pgrepl.config import model as config
from pgrepl.config.file import load_config
from pgrepl.config.keys import documented
from pgrepl.errors import PgreplError

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.toml"))


def section(text: str, title: str) -> str:
    """Return what stands under a heading."""
    _, _, after = text.partition(f"\n## {title}\n")
    assert after, title
    return after.partition("\n## ")[0]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `?([^`|]+?)`? \|", text, re.MULTILINE)[1:]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_configuration_can_be_loaded(path):
    assert load_config(path).sources


def test_readme_shows_a_configuration_that_can_be_loaded(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    path = tmp_path / "pgrepl.toml"
    path.write_text(text, encoding="utf-8")
    assert set(load_config(path).sources) == {"shop"}


def test_every_setting_is_documented_as_it_is_declared():
    render = runpy.run_path(str(ROOT / "scripts" / "document_settings.py"))["render"]
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert page == render(page), "run: make docs"
    keys = [*documented(config.ReplayConfig)]
    without = page.replace("".join(f"| {' | '.join(row)} |\n" for row in keys), "")
    assert without != page
    assert render(without) == page


def test_every_field_of_the_configuration_is_a_key():
    assert {field.name for field in dataclasses.fields(config.Config)} == {
        *config.SECTIONS,
        "path",
        "sources",
    }
    for kind in (*config.SECTIONS.values(), config.SourceConfig):
        without = {field.name for field in dataclasses.fields(kind) if not field.metadata}
        assert without == ({"name"} if kind is config.SourceConfig else set())


def test_every_command_and_option_is_documented():
    render = runpy.run_path(str(ROOT / "scripts" / "document_commands.py"))["render"]
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == render(), "run: make docs"


def test_every_kind_of_error_has_its_remedy():
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, PgreplError) and value is not PgreplError
    }
    assert set(re.findall(r"`([A-Z]\w+)`", text)) == kinds


def test_every_exit_code_is_documented():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    codes = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, PgreplError)
    }
    assert {int(code) for code in first_column(section(readme, "Exit codes"))} == codes | {0}


def test_every_check_of_doctor_is_documented_in_its_section():
    text = (DOCS / "doctor.md").read_text(encoding="utf-8")
    documented = {
        name: first_column(section(text, title))
        for name, title in (
            ("source", "Sources"),
            ("stream", "Topics"),
            ("target", "Target"),
            ("here", "This machine"),
        )
    }
    sources = {
        path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "doctor").glob("**/*.py")
    }
    checks = {
        stem: set(re.findall(r'[Ff]inding(?:\.ok|\.skipped)?\(\s*"([a-z0-9-]+)"', code))
        for stem, code in sources.items()
    }
    of_both = {"version", "encryption"}
    unreachable = {"reachable", "readable"}
    kinds = (
        "source",
        "plugin",
        "table",
        "capture",
        "future",
        "generated",
        "publication",
        "rule",
        "orphaned_slot",
    )
    judged = {check for kind in kinds for check in checks[f"{kind}_checks"]}
    assert set(documented["source"]) == judged | unreachable
    of_stream = checks["stream_checks"] | checks["stream_samples"] | checks["topic_growth"]
    assert set(documented["stream"]) == of_stream | {"registry"}
    kinds_of_target = ("target", "owner", "code", "name", "orphaned_source", "passed_over")
    of_target = {check for kind in kinds_of_target for check in checks[f"{kind}_checks"]}
    assert set(documented["target"]) == of_target | of_both | unreachable
    here = checks["machine"] | checks["spark_checks"] | checks["examine"]
    assert set(documented["here"]) == here - unreachable
    assert all(len(names) == len(set(names)) for names in documented.values())


def test_links_between_documents_lead_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), (document.name, link)
