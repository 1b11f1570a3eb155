"""Remove a source: everything that pgrepl made for it, on both sides."""

from pgrepl.drop.report import DropReport, Item, Survey
from pgrepl.drop.run import drop_source, survey_source
from pgrepl.drop.unconfigured import find_unconfigured

__all__ = [
    "DropReport",
    "Item",
    "Survey",
    "drop_source",
    "find_unconfigured",
    "survey_source",
]
