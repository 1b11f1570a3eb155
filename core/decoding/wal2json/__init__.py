"""wal2json's format 2: one JSON object a message.

``grammar`` is what its lines look like, ``stream`` the output plugin as the receiver sees it,
``payload`` the spool's rows as the replayer does.
"""

from pgrepl.decoding.wal2json.payload import Wal2JsonPayload
from pgrepl.decoding.wal2json.stream import Wal2JsonStream

__all__ = ["Wal2JsonPayload", "Wal2JsonStream"]
