"""Receive committed transactions of a source into the spool, each exactly once."""

from pgrepl.receiver.run import Receiver, Result
from pgrepl.receiver.settings import ReceiverSettings
from pgrepl.receiver.systemd_notify import Notifier

__all__ = ["Notifier", "Receiver", "ReceiverSettings", "Result"]
