"""Receive committed transactions of a source into the spool, each exactly once.

``run`` drives: session after session it opens the spool (``spool.spool_session``) and the source
(``kinds``, ``source``; a folder for each kind, ``streams`` for what those of records share), and
lets the source's stream hand batches to the thread that writes them (``spool.spool_writer``).
Where a change goes is decided by ``routing``, what is written together by
``spool.segment_buffer``. ``plugin_change`` gives a slot another output plugin, ``adoption`` goes on
with what pg_upgrade made of a server.
"""

from pgrepl.receiver.adoption import Adoption, adopt
from pgrepl.receiver.plugin_change import change_plugin
from pgrepl.receiver.run import Receiver, Result
from pgrepl.receiver.settings import ReceiverSettings
from pgrepl.receiver.systemd_notify import Notifier

__all__ = [
    "Adoption",
    "Notifier",
    "Receiver",
    "ReceiverSettings",
    "Result",
    "adopt",
    "change_plugin",
]
