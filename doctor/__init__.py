"""Check everything that would later fail or silently lose data, and name what fixes it."""

from pgrepl.doctor.examine import examine
from pgrepl.doctor.finding import Area, Examination, Finding, Remedy, Status, exit_code
from pgrepl.doctor.fix import Fix, plan_fixes, run_fixes
from pgrepl.doctor.script import psql_script

__all__ = [
    "Area",
    "Examination",
    "Finding",
    "Fix",
    "Remedy",
    "Status",
    "examine",
    "exit_code",
    "plan_fixes",
    "psql_script",
    "run_fixes",
]
