"""The names of a source's schemas on the target while its DDL is applied. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import check_target_schema, is_system_schema
from pgrepl.syntax.remap import ConfinedMap

__all__ = ["CaptureMap", "make_map", "new_target_schema"]

_CATALOG = "pg_catalog"
#: The number of maps that are kept; a source has one for each search path of its commands.
_KEPT = 64


@dataclass(frozen=True, slots=True, eq=False)
class CaptureMap(ConfinedMap):
    """The map that captured statements have, with the search path that they ran under."""

    def search_path(self, schemas: list[str]) -> list[str]:
        """Return a search path for the target; schemas that are not there lead nowhere."""
        path: list[str] = []
        for schema in schemas:
            if schema == _CATALOG:
                # Named in a path it is not the first of it.
                path.append(schema)
            if schema in self.schemas:
                path.append(self.schemas[schema])
            path += [home for (place, _), home in self.members.items() if place == schema]
        return list(dict.fromkeys(path))


def make_map(
    schemas: Mapping[str, str],
    extensions: Mapping[str, str],
    members: Iterable[tuple[str, str, str]],
) -> CaptureMap:
    """Return the map of a source, the same one for the same names.

    ``extensions`` are the source's, each with its schema; ``members`` the target's: extension,
    schema there, name.
    """
    homes = {
        (extensions[extension], name): home
        for extension, home, name in members
        if extension in extensions
    }
    return _make_map(tuple(schemas.items()), tuple(homes.items()))


@lru_cache(maxsize=_KEPT)
def _make_map(
    schemas: tuple[tuple[str, str], ...], homes: tuple[tuple[tuple[str, str], str], ...]
) -> CaptureMap:
    return CaptureMap(dict(schemas), dict(homes))


def new_target_schema(
    source: SourceConfig, dbname: str, schema: str, *, is_followed: bool
) -> str | None:
    """Return what a schema becomes on the target; None when none of its tables can match.

    ``is_followed``: something that the target has goes there, whatever the patterns say.

    Raises
    ------
    pgrepl.config.naming.NameClashError
        when it cannot have that name.

    """
    if is_system_schema(schema) or not (is_followed or source.selection.may_match(schema)):
        return None
    target = source.schema.target_schema(source=source.name, db=dbname, schema=schema)
    check_target_schema(target, f'schema "{schema}" of source "{source.name}"')
    return target
