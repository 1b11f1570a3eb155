"""How every source fares: positions, lag, and what needs a hand. Reads only."""

from pgrepl.status.judge import SourceStatus
from pgrepl.status.lag import Positions, Step
from pgrepl.status.problem import Problem
from pgrepl.status.read import Status, read_status

__all__ = ["Positions", "Problem", "SourceStatus", "Status", "Step", "read_status"]
