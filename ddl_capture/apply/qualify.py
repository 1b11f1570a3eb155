"""The names of a source's schemas on the target while its DDL is applied. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import check_target_schema, is_system_schema
from pgrepl.syntax.remap import RemapError, SchemaMap

__all__ = ["ConfinedMap", "make_map", "new_target_schema"]

_CATALOG = "pg_catalog"
_PUBLIC_CATALOGS = frozenset({_CATALOG, "information_schema"})


@dataclass(frozen=True, slots=True)
class ConfinedMap(SchemaMap):
    """A map out of which no name leads: what is not the source's own is an error."""

    def target_schema(self, schema: str, name: str | None = None) -> str:
        """Return where an object of this schema is on the target.

        Raises
        ------
        RemapError
            when the schema is not one of the source's replicated ones.

        """
        if name is not None and (schema, name) in self.members:
            return self.members[schema, name]
        if schema in self.schemas:
            return self.schemas[schema]
        if schema in _PUBLIC_CATALOGS:
            return schema
        raise RemapError(f'it names schema "{schema}", which is not replicated')

    def must_change(self, schema: str, name: str) -> bool:
        """Whether this name, found on the target's side, still is the source's."""
        if schema not in self.schemas:
            return False
        return self.target_schema(schema, name) != schema and schema not in self.schemas.values()

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
) -> ConfinedMap:
    """Return the map of a source.

    ``extensions`` are the source's, each with its schema; ``members`` the target's: extension,
    schema there, name.
    """
    return ConfinedMap(
        schemas,
        {
            (extensions[extension], name): home
            for extension, home, name in members
            if extension in extensions
        },
    )


def new_target_schema(source: SourceConfig, dbname: str, schema: str) -> str | None:
    """Return what a schema becomes on the target; None when none of its tables can match.

    Raises
    ------
    pgrepl.config.naming.NameClashError
        when it cannot have that name.

    """
    if is_system_schema(schema) or not source.selection.may_match(schema):
        return None
    target = source.schema.target_schema(source=source.name, db=dbname, schema=schema)
    check_target_schema(target, f'schema "{schema}" of source "{source.name}"')
    return target
