"""Receive committed transactions of a source into the spool, each exactly once."""

from pgrepl.receiver.notify import Notifier
from pgrepl.receiver.run import Receiver, Result
from pgrepl.receiver.settings import ReceiverSettings

__all__ = ["Notifier", "Receiver", "ReceiverSettings", "Result"]
