"""Find and read ``pgrepl.toml``.

Reading is strict and complete: every unknown key, wrong type and clash in the file is collected,
and one ``ConfigError`` names them all with file, key and reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pgrepl.config import (
    BUCKET_COUNT,
    CONSISTENCIES,
    ON_ERRORS,
    SPECIAL_FLOATS,
    Config,
    Consistency,
    OnError,
    ReplayConfig,
    SourceConfig,
    SparkConfig,
    SpecialFloats,
    TargetConfig,
)
from pgrepl.dsn import Dsn
from pgrepl.errors import ConfigError
from pgrepl.naming import (
    IDENTIFIER_BYTES,
    NameClashError,
    SchemaTemplate,
    TableSelection,
    assign_target_schemas,
    check_target_schema,
)
from pgrepl.toml_section import Problems, Section

__all__ = ["CONFIG_NAME", "find_config", "load_config"]

CONFIG_NAME = "pgrepl.toml"

_SOURCE_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")


def find_config(given: Path | None, *, cwd: Path, home: Path, etc: Path = Path("/etc")) -> Path:
    """Return the file to read: the one given, else the first that exists.

    ``given`` is ``--config`` or ``$PGREPL_CONFIG``; it must exist.
    """
    if given is not None:
        if not given.exists():
            raise ConfigError(
                f"{given} does not exist",
                hint="Check --config, or PGREPL_CONFIG in the environment.",
            )
        return given
    places = (
        cwd / CONFIG_NAME,
        home / ".config" / "pgrepl" / CONFIG_NAME,
        etc / "pgrepl" / CONFIG_NAME,
    )
    for place in places:
        if place.exists():
            return place
    looked = ", ".join(map(str, places))
    raise ConfigError(
        f"no {CONFIG_NAME} found; looked for {looked}",
        hint="Name one with --config, or begin with docs/examples/minimal.toml.",
    )


def load_config(path: Path) -> Config:
    """Read a configuration file.

    Raises
    ------
    ConfigError
        naming the file and each mistake in it.

    """
    problems = Problems(path)
    root = Section(_parse(path), "", problems)
    config = Config(
        path=path,
        target=_read_target(root.section("target")),
        spark=_read_spark(root.section("spark", required=False)),
        replay=_read_replay(root.section("replay", required=False)),
        sources=_read_sources(root.section("sources", required=False)),
    )
    root.finish()
    _check_sources(config.sources, problems)
    problems.raise_if_any()
    return config


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"cannot read {path}: {(exc.strerror or '').lower()}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8 at byte {exc.start}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(
            f"{path}: not TOML: {str(exc)[:1].lower()}{str(exc)[1:]}",
            hint="Texts stand in double quotes, sections in square brackets.",
        ) from exc


def _read_dsn(section: Section) -> Dsn:
    return section.convert("dsn", section.text("dsn"), Dsn, fallback=Dsn(""))


def _read_target(section: Section) -> TargetConfig:
    target = TargetConfig(dsn=_read_dsn(section))
    section.finish()
    return target


def _read_spark(section: Section) -> SparkConfig:
    conf = section.flat_texts("conf")
    for key in conf:
        if not key.startswith("spark."):
            section.problem(f"conf.{key}", 'Spark settings begin with "spark."')
        if key == "spark.master":
            section.problem(f"conf.{key}", "belongs into spark.master of this file")
    spark = SparkConfig(
        master=section.text("master", default="local[*]"), conf=MappingProxyType(conf)
    )
    section.finish()
    return spark


def _read_replay(section: Section) -> ReplayConfig:
    replay = ReplayConfig(
        shards=section.integer("shards", default=4, low=1, high=BUCKET_COUNT),
        batch_seconds=section.integer("batch_seconds", default=30, low=1, high=86_400),
        consistency=cast("Consistency", section.choice("consistency", CONSISTENCIES)),
        on_error=cast("OnError", section.choice("on_error", ON_ERRORS)),
    )
    section.finish()
    return replay


def _read_sources(section: Section) -> Mapping[str, SourceConfig]:
    sources = {}
    for name in section.names():
        part = section.section(name)
        if not _SOURCE_NAME.fullmatch(name):
            part.problem("", "a source's name is a lower-case letter, then letters, digits or _")
        sources[name] = _read_source(name, part)
        part.finish()
    return MappingProxyType(sources)


def _read_source(name: str, section: Section) -> SourceConfig:
    slot = section.text("slot", default=f"pgrepl_{name}")
    if not _SLOT_NAME.fullmatch(slot):
        section.problem(
            "slot",
            f'"{slot}" cannot be a slot: only lower-case letters, digits and _,'
            f" at most {IDENTIFIER_BYTES} of them",
        )
    return SourceConfig(
        name=name,
        dsn=_read_dsn(section),
        slot=slot,
        schema=section.convert(
            "schema",
            section.text("schema", default="{db}_{schema}"),
            SchemaTemplate,
            fallback=SchemaTemplate("{db}_{schema}"),
        ),
        selection=TableSelection(
            include=section.patterns("tables", default=("*.*",)),
            exclude=section.patterns("exclude", default=()),
        ),
        max_spool=section.size("max_spool"),
        special_floats=cast("SpecialFloats", section.choice("special_floats", SPECIAL_FLOATS)),
    )


def _check_sources(sources: Mapping[str, SourceConfig], problems: Problems) -> None:
    for source in sources.values():
        _check_target_schemas(source, problems)
    for one, other in combinations(sources.values(), 2):
        if one.slot == other.slot:
            problems.add(
                f"sources.{other.name}.slot",
                f'"{other.slot}" is the slot of source "{one.name}" too;'
                " the origin on the target has the same name, so each source needs its own",
            )
        _check_overlap(one, other, problems)


def _check_target_schemas(source: SourceConfig, problems: Problems) -> None:
    """Check the names of one source as far as they are known without asking it."""
    key = f"sources.{source.name}.schema"
    schemas = source.selection.schemas
    if not source.schema.names_schema and (schemas is None or len(schemas) > 1):
        problems.add(key, "lacks {schema}, so the tables of several schemas would meet in one")
        return
    db = source.dsn.dbname
    if db is None and "{db}" in source.schema.text:
        return
    try:
        if schemas is None:
            fixed = source.schema.target_schema(source=source.name, db=db or "", schema="")
            check_target_schema(f"{fixed}x", f'any schema of source "{source.name}"')
        else:
            assign_target_schemas([(source.name, db or "", source.schema, schemas)])
    except NameClashError as exc:
        problems.add(key, str(exc))


def _check_overlap(one: SourceConfig, other: SourceConfig, problems: Problems) -> None:
    """Find two sources that name their target schemas alike."""
    names = [_fixed_part(source) for source in (one, other)]
    if None in names or names[0] != names[1]:
        return
    schemas = [source.selection.schemas for source in (one, other)]
    if schemas[0] is not None and schemas[1] is not None and not schemas[0] & schemas[1]:
        return
    problems.add(
        f"sources.{other.name}.schema",
        f'maps to the same target schemas as source "{one.name}"; put {{source}} into one of them',
    )


def _fixed_part(source: SourceConfig) -> str | None:
    db = source.dsn.dbname
    if db is None and "{db}" in source.schema.text:
        return None
    # NUL cannot be part of a name, so it marks the place of the schema.
    return source.schema.target_schema(source=source.name, db=db or "", schema="\0")
