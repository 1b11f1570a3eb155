"""Any file is a configuration or refused by one error that names it; what is written reads back."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgrepl.config.dsn import Dsn, DsnError
from pgrepl.config.file import load_config
from pgrepl.config.keys import documented
from pgrepl.config.model import SECTIONS, Config, SourceConfig
from pgrepl.config.rules import RuleConfig
from pgrepl.config.template import make_template
from pgrepl.durations import write_duration
from pgrepl.errors import ConfigError
from pgrepl.terminal import toml_text
from tests.support.examples import examples
from tests.support.observing.shown_config import shown_config

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TEXTS = UNICODE.filter(lambda text: "\0" not in text and text.strip())
#: Texts that something reads which is not ours, and fails in its own way.
TRAPS = st.sampled_from(
    [
        *("http://[", "https://[::1", "http://a]b", "^a{99999999999999999999}", "^" + "(" * 5000),
        *("postgresql://%ff/", "postgresql://%00", "host='", "{db", "{schema!}", "{schema:{db}}"),
        *("{0}", "{}", "a.b.c", "\\", "*.*", "pg_x.*", "a" * 64, "ä" * 40, "99999999999d", "0s"),
        *("5TB", "\x7f", "\x85", "\U000e0001", "dbname=a", "debezium", "kafka", "0", "%s"),
    ]
)
#: Not a number here: Hypothesis prints what it found, and Python no number of that length.
HUGE = b"0x" + b"f" * 5000
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        *(st.booleans(), st.integers(), st.floats(), UNICODE, TRAPS),
        st.sampled_from([HUGE, -1, 0, date(2026, 1, 1), time(1, 2), datetime(1, 1, 1, tzinfo=UTC)]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(UNICODE | TRAPS, inner, max_size=3),
    max_leaves=6,
)
KEYS = {
    **{
        section: [name.strip("`") for name, _, _ in documented(SECTIONS[section])]
        for section in SECTIONS
    },
    "source": [name.strip("`") for name, _, _ in documented(SourceConfig)],
    "rule": [name.strip("`") for name, _, _ in documented(RuleConfig)],
}


def toml(value: Any) -> str:
    """Write a value; bytes as they are."""
    match value:
        case bool():
            text = str(value).lower()
        case bytes():
            text = value.decode()
        case str():
            text = toml_text(value)
        case list():
            text = f"[{', '.join(map(toml, value))}]"
        case dict():
            text = f"{{{', '.join(f'{toml_text(k)} = {toml(v)}' for k, v in value.items())}}}"
        case datetime() | date() | time():
            text = value.isoformat()
        case _:
            text = str(value)
    return text


def written(sections: dict[str, dict[str, Any]]) -> str:
    lines: list[str] = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{toml_text(key)} = {toml(value)}" for key, value in values.items()]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "pgrepl.toml"


def load(path: Path, content: bytes) -> Config | None:
    """Read a file; None: it was refused as it should be."""
    path.write_bytes(content)
    try:
        return load_config(path)
    except ConfigError as exc:
        message = exc.message
    assert message.startswith(f"{path}: ")
    return None


@given(content=st.binary(max_size=60) | UNICODE.map(str.encode))
def test_any_bytes_are_read_or_refused(path, content):
    load(path, content)


@examples(200)
@given(data=st.data())
def test_any_value_of_any_key_is_read_or_refused(path, data):
    def some(kind: str) -> dict[str, Any]:
        keys = st.sampled_from(KEYS[kind]) | TRAPS
        drawn = st.dictionaries(keys, VALUES | TRAPS, max_size=4)
        found: dict[str, Any] = data.draw(drawn, label=kind)
        return found

    sections = {section: some(section) for section in SECTIONS}
    sections["target"].setdefault("dsn", "dbname=w")
    source = {"dsn": "dbname=a", **some("source")}
    if data.draw(st.booleans()):
        source["rules"] = [{"tables": ["app.*"], **some("rule")}]
    sections["sources.shop"] = source
    found = load(path, written(sections).encode())
    if found is not None:
        tomllib.loads(shown_config(found))


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
DURATIONS = st.integers(0, 10**6).map(lambda seconds: write_duration(timedelta(seconds=seconds)))
PLAIN = TEXTS.filter(lambda text: "://" not in text and len(text.encode()) < 40)
VALID: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "target": {"dsn": PLAIN.map(lambda name: make_conninfo(dbname=name))},
    "spark": {"conf": st.dictionaries(NAMES.map("spark.x.{}".format), PLAIN, max_size=3)},
    "replay": {
        "shards": st.integers(1, 64),
        "batch_seconds": st.integers(1, 86_400),
        "consistency": st.sampled_from(["shard", "batch"]),
        "on_conflict": st.sampled_from(["error", "apply"]),
    },
    "housekeeping": {"history": DURATIONS, "foreign_key_indexes": st.booleans()},
    "ddl": {"include": st.lists(st.sampled_from(["views", "grants"]), unique=True)},
    "alerts": {"command": st.lists(TEXTS, max_size=3), "lag": DURATIONS},
    "sources.shop": {
        "dsn": PLAIN.map(lambda name: make_conninfo(dbname="shop", application_name=name)),
        "slot": NAMES,
        "owner": PLAIN,
        "max_spool": st.integers(1, 999).map("{}GB".format),
        "trust_code": st.booleans(),
        "tables": st.lists(NAMES.map("app.{}".format), min_size=1, max_size=3),
        "rules": st.lists(
            st.fixed_dictionaries(
                {"tables": st.just(["app.*"])},
                optional={
                    "null": st.lists(TEXTS, max_size=2, unique=True),
                    "where": TEXTS,
                    "salt_env": NAMES,
                },
            ),
            max_size=2,
        ),
    },
}
NEEDED = {"dsn"}


def valid() -> st.SearchStrategy[dict[str, dict[str, Any]]]:
    return st.fixed_dictionaries(
        {
            section: st.fixed_dictionaries(
                {key: own for key, own in keys.items() if key in NEEDED},
                optional={key: own for key, own in keys.items() if key not in NEEDED},
            )
            for section, keys in VALID.items()
        }
    )


@given(sections=valid())
def test_what_is_shown_of_a_configuration_is_that_configuration(path, sections):
    config = load(path, written(sections).encode())
    assert config is not None
    assert config.source("shop").dsn.parameters == conninfo_to_dict(sections["sources.shop"]["dsn"])
    text = shown_config(config)
    if "********" not in text:
        assert load(path, text.encode()) == config


@given(target=PLAIN, names=st.dictionaries(NAMES, PLAIN, min_size=1, max_size=3))
def test_template_has_what_it_was_made_of(path, target, names):
    sources = {name: make_conninfo(dbname=f"db_{name}", user=user) for name, user in names.items()}
    found = load(path, make_template(make_conninfo(dbname=target), sources).encode())
    assert found is not None
    assert found.target.dsn.dbname == target
    assert {name: source.dsn.text for name, source in found.sources.items()} == sources


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("replay.shards", "0x" + "f" * 5000, "must lie between 1 and 64"),
        ("spark.conf", '{ "spark.x" = 0x' + "f" * 5000 + " }", "is too big a number"),
        ("spark.conf", r'{ "spark.x" = "a\u0000" }', "must not hold the character NUL"),
        ("alerts.webhook", '"http://["', "must be an address"),
        ("sources.shop.registry", '"http://["', "is no address"),
        ("sources.shop.topics", '["^a{99999999999999999999}"]', "is not a regular expression"),
        ("sources.shop.topics", f'["^{"(" * 5000}"]', "is not a regular expression"),
        ("sources.shop.dsn", '"postgresql://%ff/"', "neither a libpq connection string"),
    ],
)
def test_value_that_only_its_reader_refuses_is_a_mistake_at_its_key(path, key, value, reason):
    section, _, name = key.rpartition(".")
    sections = {"target": 'dsn = "dbname=w"\n', "sources.shop": 'dsn = "dbname=a"\n'}
    if name == "dsn":
        sections[section] = ""
    sections[section] = sections.get(section, "") + f"{name} = {value}\n"
    text = "".join(f"[{own}]\n{lines}" for own, lines in sections.items())
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=reason) as caught:
        load_config(path)
    assert key in caught.value.message


@pytest.mark.parametrize("text", ["host=\udcff", "postgresql://%ff/"])
def test_bytes_that_are_no_text_are_no_dsn(text):
    with pytest.raises(DsnError, match="neither"):
        Dsn(text)
