"""What a throwaway broker is started with."""

from __future__ import annotations

import base64
import uuid
from types import SimpleNamespace

from pgrepl.throwaway.broker import make_cluster_id


def test_number_of_a_cluster_is_never_taken_for_an_option(monkeypatch):
    drawn = iter([b"\xfb" + bytes(15), bytes(16)])
    monkeypatch.setattr(uuid, "uuid4", lambda: SimpleNamespace(bytes=next(drawn)))
    assert base64.urlsafe_b64encode(b"\xfb" + bytes(15)).startswith(b"-")
    assert make_cluster_id() == "A" * 22
