"""Find and read ``pgrepl.toml``.

Reading is strict and complete: every unknown key, wrong type and clash in the file is collected,
and one ``ConfigError`` names them all with file, key and reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pgrepl.config.alerts import AlertsConfig
from pgrepl.config.dsn import Dsn
from pgrepl.config.keys import read_keys
from pgrepl.config.model import (
    Config,
    DdlConfig,
    HousekeepingConfig,
    ReplayConfig,
    SourceConfig,
    SparkConfig,
    TargetConfig,
)
from pgrepl.config.naming import (
    IDENTIFIER_BYTES,
    NameClashError,
    assign_target_schemas,
    check_target_schema,
    check_target_tables,
)
from pgrepl.config.section import Problems, Section
from pgrepl.errors import ConfigError

__all__ = ["CONFIG_NAME", "find_config", "load_config"]

CONFIG_NAME = "pgrepl.toml"

_SOURCE_NAME = re.compile(r"[a-z][a-z0-9_]*")


def find_config(given: Path | None, *, home: str | None, etc: Path = Path("/etc")) -> Path:
    """Return the file to read: the one given, else the first that exists.

    ``given`` is ``--config`` or ``$PGREPL_CONFIG``; it must exist. ``home`` may be unknown.
    """
    if given is not None:
        if not _is_there(given):
            raise ConfigError(
                f"{given} does not exist",
                hint="Check --config, or PGREPL_CONFIG in the environment.",
            )
        return given
    places = [Path(CONFIG_NAME)]
    if home:
        places.append(Path(home) / ".config" / "pgrepl" / CONFIG_NAME)
    places.append(etc / "pgrepl" / CONFIG_NAME)
    for place in places:
        if _is_there(place):
            return place
    looked = ", ".join(map(str, places))
    raise ConfigError(
        f"no {CONFIG_NAME} found; looked for {looked}",
        hint="Name one with --config, or make one: pgrepl init",
    )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as exc:
        raise ConfigError(f"cannot read {path}: {(exc.strerror or '').lower()}") from exc


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
        target=read_keys(TargetConfig, root.section("target")),
        spark=read_keys(SparkConfig, root.section("spark", required=False)),
        replay=read_keys(ReplayConfig, root.section("replay", required=False)),
        alerts=read_keys(AlertsConfig, root.section("alerts", required=False)),
        housekeeping=read_keys(HousekeepingConfig, root.section("housekeeping", required=False)),
        sources=_read_sources(root.section("sources", required=False)),
        ddl=read_keys(DdlConfig, root.section("ddl", required=False)),
    )
    root.finish()
    _check_sources(config.sources, problems)
    problems.raise_if_any()
    return config


def _parse(path: Path) -> dict[str, Any]:
    if _is_there(path) and not path.is_file():
        raise ConfigError(f"cannot read {path}: it is not a file")
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
    except (ValueError, RecursionError) as exc:
        # Python reads neither numbers of thousands of digits nor lists of thousands of levels.
        raise ConfigError(f"{path}: not a configuration: a value in it is monstrous") from exc


def _read_sources(section: Section) -> Mapping[str, SourceConfig]:
    sources = {}
    for name in section.names():
        part = section.section(name)
        if not _SOURCE_NAME.fullmatch(name):
            part.problem("", "a source's name is a lower-case letter, then letters, digits or _")
        sources[name] = read_keys(SourceConfig, part, name=name)
    return MappingProxyType(sources)


def _check_sources(sources: Mapping[str, SourceConfig], problems: Problems) -> None:
    if not sources:
        problems.add("sources", "there is none: add a section [sources.NAME] with its dsn")
    slots: dict[str, str] = {}
    for source in sources.values():
        _check_kind(source, problems)
        _check_target_schemas(source, problems)
        _check_publications(source, problems)
        _check_rules(source, problems)
        first = slots.setdefault(source.slot, source.name)
        if first != source.name:
            problems.add(
                f"sources.{source.name}.slot",
                f'"{source.slot}" is the slot of source "{first}" too;'
                " the origin on the target has the same name, so each source needs its own",
            )
    _check_clashes(sources.values(), problems)


def _check_kind(source: SourceConfig, problems: Problems) -> None:
    """Check that a source has what its kind needs, and nothing of another kind."""
    stream = source.stream
    needed: dict[str, dict[str, object]] = {
        "postgres": {"dsn": source.dsn != Dsn("")},
        "kafka": {"bootstrap": stream.bootstrap, "topics": stream.topics},
        "files": {"path": stream.path},
    }
    for kind, its in needed.items():
        for key, value in its.items():
            if kind == source.kind and not value:
                problems.add(f"sources.{source.name}.{key}", f'is missing: kind is "{kind}"')
            if kind != source.kind and value:
                problems.add(
                    f"sources.{source.name}.{key}", f'is of kind "{kind}", not "{source.kind}"'
                )
    if source.kind == "kafka" and stream.format == "avro" and not stream.registry:
        problems.add(f"sources.{source.name}.registry", 'is missing: format is "avro"')
    if source.kind == "files" and stream.format != "json":
        problems.add(f"sources.{source.name}.format", "of files is told by their names")
    if source.kind == "files" and stream.transaction_topic:
        problems.add(f"sources.{source.name}.transaction_topic", 'is of kind "kafka" only')
    if source.kind != "files" and stream.key:
        problems.add(f"sources.{source.name}.key", f'is of kind "files", not "{source.kind}"')
    if stream.transaction_topic and stream.envelope != "debezium":
        problems.add(f"sources.{source.name}.transaction_topic", 'is of envelope "debezium" only')


def _check_rules(source: SourceConfig, problems: Problems) -> None:
    if source.rules.entries and not source.is_database:
        problems.add(f"sources.{source.name}.rules", f'are of kind "postgres", not "{source.kind}"')
    names = source.rules.table_names
    if names and source.trust_code:
        problems.add(
            f"sources.{source.name}.rules",
            "give tables other names, which code of the source does not know: not with trust_code",
        )
    included = [pattern.only for pattern in source.selection.include]
    others = [key for key in included if key is not None and source.selection.matches(*key)]
    try:
        check_target_tables(names, others)
    except NameClashError as exc:
        problems.add(f"sources.{source.name}.rules", str(exc))


def _check_publications(source: SourceConfig, problems: Problems) -> None:
    """Check that the publications of a source, named after its slot, can have their names."""
    longest = IDENTIFIER_BYTES - len("_inserts")
    if source.plugin == "pgoutput" and len(source.slot) > longest:
        problems.add(
            f"sources.{source.name}.slot",
            f'"{source.slot}" is too long for pgoutput: its publications are named after it, which'
            f" leaves {longest} bytes",
        )


def _check_target_schemas(source: SourceConfig, problems: Problems) -> None:
    """Check the names of one source as far as they are known without asking it."""
    key = f"sources.{source.name}.schema"
    schemas = source.selection.schemas
    if not source.schema.uses("schema") and (schemas is None or len(schemas) > 1):
        problems.add(key, "lacks {schema}, so the tables of several schemas would meet in one")
        return
    if not _is_known(source):
        return
    try:
        if schemas is None:
            check_target_schema(
                f"{_target_schema(source, '')}x", f'any schema of source "{source.name}"'
            )
        else:
            assign_target_schemas([(source.name, source.db or "", source.schema, schemas)])
    except NameClashError as exc:
        problems.add(key, str(exc))


def _check_clashes(sources: Iterable[SourceConfig], problems: Problems) -> None:
    """Find sources that name their target schemas alike, as far as the file tells."""
    known = [source for source in sources if _is_known(source)]
    # NUL cannot be part of a name, so it marks the place of the schema.
    alike: dict[str, list[SourceConfig]] = {}
    for source in known:
        alike.setdefault(_target_schema(source, "\0"), []).append(source)
    for one, *others in alike.values():
        for other in others:
            mine, theirs = one.selection.schemas, other.selection.schemas
            if mine is None or theirs is None or mine & theirs:
                problems.add(
                    f"sources.{other.name}.schema",
                    f'maps to the same target schemas as source "{one.name}";'
                    " put {source} into one of them",
                )
    literal = [source for source in known if source.selection.schemas is not None]
    taken: dict[str, tuple[str, str]] = {}
    for source in literal:
        for schema in sorted(source.selection.schemas or ()):
            target = _target_schema(source, schema)
            first = taken.setdefault(target, (source.name, _target_schema(source, "\0")))
            if first[0] != source.name and first[1] != _target_schema(source, "\0"):
                problems.add(
                    f"sources.{source.name}.schema",
                    f'schema "{schema}" would become "{target}", as one of source "{first[0]}"',
                )


def _is_known(source: SourceConfig) -> bool:
    """Whether the target schemas can be told without asking the source for its database."""
    return source.db is not None or not source.schema.uses("db")


def _target_schema(source: SourceConfig, schema: str) -> str:
    return source.schema.target_schema(source=source.name, db=source.db or "", schema=schema)
