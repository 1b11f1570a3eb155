"""As whom a throwaway server runs."""

from __future__ import annotations

import os
import pwd

import pytest

from pgrepl.errors import ConfigError
from pgrepl.throwaway.unprivileged import server_account


def test_user_without_a_name_is_told_so(monkeypatch):
    nobody = max(entry.pw_uid for entry in pwd.getpwall()) + 1
    monkeypatch.setattr(os, "geteuid", lambda: nobody)
    with pytest.raises(ConfigError, match=f"user {nobody}, who has no entry in /etc/passwd"):
        server_account()
