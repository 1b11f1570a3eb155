"""How many examples Hypothesis makes: other ones each time, and many in a soak."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_TIMES = int(os.environ.get("PGREPL_EXAMPLES", "1"))


def limit_examples() -> None:
    """Set what holds for tests that say nothing else."""
    # How fast inputs are made says how busy the machine is, not whether a test is right.
    settings.register_profile(
        "any_machine",
        suppress_health_check=[HealthCheck.too_slow],
        deadline=None,
        max_examples=50 * _TIMES,
    )
    settings.load_profile("any_machine")


def examples(count: int) -> settings:
    """Return the settings of a test that has more of them, or fewer, than others."""
    return settings(max_examples=count * _TIMES, deadline=None)
