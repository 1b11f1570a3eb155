"""How every source fares: positions, lag, and what needs a hand. Reads only."""

from pgrepl.status.lag import Positions, Step
from pgrepl.status.problems.judge import SourceStatus
from pgrepl.status.problems.problem import Problem
from pgrepl.status.read import Status, read_status

__all__ = ["Positions", "Problem", "SourceStatus", "Status", "Step", "read_status"]
