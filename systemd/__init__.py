"""Unit files and a crontab, so that pgrepl runs unattended."""

from pgrepl.systemd.crontab import make_crontab
from pgrepl.systemd.units import MADE_BY, Installation, make_units

__all__ = ["MADE_BY", "Installation", "make_crontab", "make_units"]
