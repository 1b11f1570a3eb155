"""Judge who owns the copies on the target. Every function is pure: facts in, a finding out."""

from __future__ import annotations

from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.target_facts import SchemaOwner, TargetFacts

__all__ = ["check_schema_owners"]


def check_schema_owners(target: TargetFacts) -> Finding:
    """Each source's schemas belong to a role that can do nothing else, as a second line."""
    foreign = [owner for owner in target.owners if owner.role.is_foreign]
    if foreign:
        return _refuse(target, foreign)
    lacking = [owner for owner in target.owners if _is_lacking(owner)]
    if not lacking:
        return Finding.ok(
            "schema-owners",
            "each source's schemas belong to a role of their own, or basebackup makes it",
        )
    server = target.server
    statements: list[str] = []
    for owner in lacking:
        if not owner.role.is_self and not owner.role.is_usable:
            statements += [
                statement.as_string()
                for statement in owner.role.make_statements(server.role, server.version_num)
            ]
        if not owner.role.is_self:
            statements += owner.to_hand_over
    itself = [owner.source for owner in lacking if owner.role.is_self]
    return Finding(
        "schema-owners",
        Status.WARNING,
        "no role of its own owns the schemas of source"
        f" {listed([owner.source for owner in lacking])}: what their definitions call runs as"
        f' role "{server.role}"',
        Remedy(
            sql=tuple(statements),
            then=f'name another role with owner = "..." for {listed(itself)}: pgrepl itself runs as'
            f' "{server.role}"'
            if itself
            else None,
        ),
        tuple(owner.source for owner in lacking),
        is_offered=bool(statements),
    )


def _is_lacking(owner: SchemaOwner) -> bool:
    """Whether a source's schemas do not belong to its role, or will not."""
    if owner.to_hand_over or owner.role.is_self:
        return True
    return not owner.role.is_usable and not (owner.role.may_create and not owner.role.exists)


def _refuse(target: TargetFacts, foreign: list[SchemaOwner]) -> Finding:
    copied = set(target.own_schemas.values())
    is_in_the_way = any(owner.source not in copied for owner in foreign)
    names = [f'"{owner.role.name}" ({owner.role.foreign_reason})' for owner in foreign]
    return Finding(
        "schema-owners",
        Status.FAILURE if is_in_the_way else Status.WARNING,
        f"roles that are to own the schemas of sources are not owned by pgrepl: {listed(names)}",
        Remedy(then='name others with owner = "..." in pgrepl.toml, or rename those roles'),
        tuple(owner.role.name for owner in foreign),
    )
