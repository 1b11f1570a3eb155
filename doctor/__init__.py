"""Check everything that would later fail or silently lose data, and name what fixes it."""

from pgrepl.doctor.examine import examine
from pgrepl.doctor.finding import Area, Examination, Finding, Remedy, Status, exit_code
from pgrepl.doctor.script import psql_script

__all__ = [
    "Area",
    "Examination",
    "Finding",
    "Remedy",
    "Status",
    "examine",
    "exit_code",
    "psql_script",
]
