"""pgoutput, the output plugin that every server has: its messages of protocol version 1, as text.

``grammar`` is what its messages look like, ``framing`` how a payload holds them, ``stream`` the
output plugin as the receiver sees it, ``payload`` the spool's rows as the replayer does.
"""

from pgrepl.decoding.pgoutput.payload import PgoutputPayload, UpsertPayload
from pgrepl.decoding.pgoutput.stream import PgoutputStream

__all__ = ["PgoutputPayload", "PgoutputStream", "UpsertPayload"]
