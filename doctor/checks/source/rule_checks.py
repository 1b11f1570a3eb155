"""Judge the rules of a source. Pure: facts in, finding out."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.rule_facts import RuleProblem
from pgrepl.config.rules import Rules
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.errors import ConfigError
from pgrepl.terminal import counted

__all__ = ["check_rules"]


def check_rules(rules: Rules, problems: Sequence[RuleProblem], *, is_captured: bool) -> Finding:
    """Every rule holds for the tables that there are, and its salt is in the environment."""
    names = len(rules.table_names)
    if not rules.has_effects and not names:
        return Finding.ok("rules", "no column is masked or omitted, no row filtered")
    failures = tuple(str(problem) for problem in problems if problem.is_failure)
    if failures:
        why = f"rules cannot hold: {listed(failures)}"
        then = "choose other rules in pgrepl.toml, or exclude the tables; see docs/rules.md"
        return Finding("rules", Status.FAILURE, why, Remedy(then=then), failures)
    try:
        rules.salts()
    except ConfigError as exc:
        return Finding("rules", Status.FAILURE, exc.message, Remedy(then=exc.hint))
    if rules.has_effects and not is_captured:
        why = "rules go by the names of columns, and no DDL is captured: receive refuses that"
        then = "have DDL captured, see ddl-capture"
        return Finding("rules", Status.FAILURE, why, Remedy(then=then))
    if problems:
        notes = tuple(map(str, problems))
        why = f"rules are for what does not exist: {listed(notes)}"
        then = "correct their names in pgrepl.toml, unless it is to be made later"
        return Finding("rules", Status.WARNING, why, Remedy(then=then), notes)
    count = sum(len(entry.masks) for entry in rules.entries)
    filters = sum(1 for entry in rules.entries if entry.where)
    what = f"{counted(count, 'column')} masked or omitted"
    what += f", {counted(filters, 'filter')} of rows" if filters else ""
    what += f", {counted(names, 'table')} of another name" if names else ""
    return Finding.ok("rules", f"{what}, all can be")
