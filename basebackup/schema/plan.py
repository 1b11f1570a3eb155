"""What a dump becomes: statements before the data, steps after it, and what is skipped.

``SchemaWork`` is what sorting one dump knows and has done so far; which statement goes where is
said in ``classify``, ``before_data`` and ``after_data``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pgrepl.basebackup.schema.errors import SchemaError
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.source_objects import SourceObjects
from pgrepl.basebackup.schema.statements.subject import Subject
from pgrepl.store.skipped_code import SkippedCode
from pgrepl.store.tables.copy_work import Phase
from pgrepl.syntax.parse import StatementTexts, Tree
from pgrepl.syntax.remap import RemapError, SchemaMap, remap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["ROW_PHASES", "Phase", "SchemaPlan", "SchemaWork", "Step"]

#: These look at rows of two tables: they hold only between tables copied at the same moment.
ROW_PHASES: tuple[Phase, ...] = ("validate", "valid_foreign_key")


@dataclass(frozen=True, slots=True)
class Step:
    """A statement that runs after the data."""

    phase: Phase
    #: The table that it locks, by its name on the source.
    schema: str
    table: str
    sql: str


@dataclass(slots=True)
class SchemaPlan:
    """A dump, sorted."""

    #: Run in one transaction, before the data.
    before: list[str] = field(default_factory=list)
    #: Run after the data, phase by phase.
    steps: list[Step] = field(default_factory=list)
    #: Attaches new partitions to tables that were there before: run after the keys.
    attach: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    #: What calls code of the source and is not made for that reason.
    skipped: list[SkippedCode] = field(default_factory=list)


class SchemaWork:
    """One dump while it is sorted."""

    def __init__(
        self,
        objects: SourceObjects,
        names: SchemaMap,
        texts: StatementTexts,
        *,
        with_all_indexes: bool,
    ) -> None:
        """Begin with what the source says of its objects.

        Raises
        ------
        SchemaError
            when tables need what is not replicated.

        """
        self.plan = SchemaPlan()
        self.names = names
        self.texts = texts
        self.with_all_indexes = with_all_indexes
        self.tables = {table.key: table for table in objects.tables}
        self.needed = {item.subject: item for item in objects.needed}
        self.views = {view.key: view for view in objects.views.chosen}
        self.view_needs = {item.subject: item for item in objects.views.needed}
        self.named = {(item.kind, item.name) for item in objects.unseen}
        #: Indexes and constraints that are made, with the keys or with the views.
        self.made: set[tuple[str, str]] = set()
        self.made_late: set[tuple[str, str]] = set()
        #: Extended statistics that are made, and when.
        self.statistics: dict[Subject, Phase] = {}
        if objects.cut_off:
            raise SchemaError(
                f"replicated tables need {', '.join(objects.cut_off)}, which the patterns exclude"
                " or which cannot be replicated"
            )

    def is_wanted(self, subject: Subject | None) -> bool:
        """Whether the copy has the object, or a replicated table needs it."""
        if subject is None:
            return False
        # A type that a table or a composite type is has its name from pg_class.
        return subject in self.needed or (
            subject.catalog == "pg_type"
            and Subject("pg_class", subject.schema, subject.name) in self.needed
        )

    def is_index_wanted(self, statement: Tree, subject: Subject) -> bool:
        """Whether an index is made; one that is not is named."""
        if statement.unique or self.with_all_indexes:
            return True
        name = f"{subject.schema}.{statement.idxname}"
        self.plan.left_out.append(LeftOut("index", name, "not unique; --indexes all makes it"))
        return False

    def remap(self, tree: Tree, subject: Subject | None, *, is_evaluated: bool = False) -> str:
        """Return a statement with the target's names.

        Raises
        ------
        SchemaError
            when it cannot be given them.

        """
        kind, _ = statement_of(tree)
        try:
            remapped = remap(tree, self.names, self.texts.find(tree))
        except RemapError as exc:
            raise SchemaError(f"the {kind} of {subject} cannot be remapped: {exc}") from exc
        bodies = [what for what in remapped.opaque if "body" in what]
        for what in remapped.opaque:
            if what in bodies and is_evaluated:
                raise SchemaError(
                    f"the {what} of function {subject} names a schema, which cannot be remapped,"
                    " and more than a column's default needs the function"
                )
            self.plan.left_out.append(
                LeftOut("renaming", f"{what} of {subject}", "it names a source schema, kept as is")
            )
        return remapped.sql

    def add_step(self, phase: Phase, subject: Subject, sql: str) -> None:
        """Have a statement run after the data."""
        self.plan.steps.append(Step(phase, subject.schema, subject.name, sql))

    def add_statement(self, phase: Phase, subject: Subject, tree: Tree) -> None:
        """Have a statement of the dump run after the data, with the target's names."""
        self.add_step(phase, subject, self.remap(tree, subject))
