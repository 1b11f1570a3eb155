"""Whether constants and strings mean on the target what they meant on the source. Pure.

PostgreSQL reads a constant once, when it reads the statement, and takes it for immutable from then
on, though 'now' is another time here and 't'::regclass another number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgrepl.ddl_capture.apply.target_session import Environment
from pgrepl.ddl_capture.policy.judge import Literals
from pgrepl.source_code.locale import reason_of_locale

__all__ = ["reason_not_to_compute", "reason_not_to_trust"]

#: These read a constant by the settings that are captured, and some words by the clock.
_CLOCK = frozenset({"date_in", "time_in", "timestamp_in", "timestamptz_in"})
_CLOCK_WORDS = re.compile(r"now|today|tomorrow|yesterday", re.IGNORECASE)
#: These by the settings alone.
_BY_SETTINGS = _CLOCK | {"cash_in", "interval_in", "xml_in"}
_SETTINGS = frozenset(
    {
        *("DateStyle", "IntervalStyle", "TimeZone", "timezone_abbreviations"),
        *("array_nulls", "lc_monetary", "xmloption"),
    }
)
#: And this by labels that the target has as well.
_ALIKE = frozenset({"enum_in"})


def reason_not_to_trust(
    literals: Literals, constants: Iterable[str], environment: Environment, locale: str | None
) -> str | None:
    """Return why an expression may have another value here; ``locale`` is the source's."""
    if literals.readers - _BY_SETTINGS - _ALIKE:
        return "constants of types that each server reads in its own way"
    if literals.readers & _CLOCK and any(map(_CLOCK_WORDS.search, constants)):
        return "the clock"
    if literals.readers & _BY_SETTINGS and (
        not environment.is_known or environment.lacking & _SETTINGS
    ):
        return "constants whose meaning depends on settings that are not known here"
    if literals.is_converted and not environment.is_known:
        return "texts that depend on settings that are not known here"
    return reason_of_locale(literals.dependence, locale, literals.locale)


def reason_not_to_compute(literals: Literals, locale: str | None) -> str | None:
    """Return why a generated column would have other values here.

    Its constants are compared with those of the source as part of the structure.
    """
    if literals.readers - _BY_SETTINGS - _ALIKE:
        return "it has constants of types that each server reads in its own way"
    reason = reason_of_locale(literals.dependence, locale, literals.locale)
    return None if reason is None else f"it is computed by {reason}"
