"""Where the monitor may listen, and with which token."""

from __future__ import annotations

import pytest

from pgrepl.errors import ConfigError, UsageError
from pgrepl.monitor.address import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, Address, read_token

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9815", "127.0.0.1", 9815),
        ("localhost:1", "localhost", 1),
        ("127.0.0.7:80", "127.0.0.7", 80),
        ("[::1]:9815", "::1", 9815),
    ],
)
def test_loopback_needs_no_token(text, host, port):
    address = Address.parse(text, option="--listen")
    assert (address.host, address.port, address.is_loopback) == (host, port, True)


@pytest.mark.parametrize("text", ["0.0.0.0:9815", "[::]:9815", "db.example.com:80", "10.1.2.3:80"])
def test_address_that_others_reach_needs_a_token_or_a_word(text):
    with pytest.raises(UsageError, match="no token is set"):
        Address.parse(text, option="--listen")
    assert not Address.parse(text, token=TOKEN, option="--listen").is_loopback
    assert Address.parse(text, is_open=True, option="--listen").token is None


@pytest.mark.parametrize("text", ["", "x", "1:2:3", "host:", "127.0.0.1:70000", "-1", "[::1]"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match=r"is not \[HOST:\]PORT"):
        Address.parse(text, option="--listen")


def test_token_comes_from_a_file_or_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n", encoding="utf-8")
    assert read_token({}) is None
    assert read_token({TOKEN_VARIABLE: TOKEN + "x"}) == TOKEN + "x"
    assert read_token({TOKEN_FILE_VARIABLE: str(file)}) == TOKEN
    assert read_token({TOKEN_VARIABLE: TOKEN + "x"}, file) == TOKEN


@pytest.mark.parametrize("token", ["", "short", "with a space in it", "0123456789abcdéf"])
def test_weak_token_is_refused_and_not_shown(token):
    with pytest.raises(ConfigError) as caught:
        read_token({TOKEN_VARIABLE: token})
    assert not token or token not in caught.value.message


def test_token_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_token({}, tmp_path / "none")


def test_token_is_not_in_what_python_shows():
    assert TOKEN not in repr(Address(host="::1", port=1, token=TOKEN))
