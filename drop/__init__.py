"""Remove a source: everything that pgrepl made for it, on both sides."""

from pgrepl.drop.report import DropReport, Item, Survey
from pgrepl.drop.run import drop_source, privileged_script, survey_source
from pgrepl.drop.unconfigured import find_unconfigured

__all__ = [
    "DropReport",
    "Item",
    "Survey",
    "drop_source",
    "find_unconfigured",
    "privileged_script",
    "survey_source",
]
