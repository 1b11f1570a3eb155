"""Who may ask the monitor, what may be asked, and what browsers are told. No server is needed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pgrepl.config.file import load_config
from tests.support.observing.asking import ask, served
from tests.support.program import write_config

TOKEN = "0123456789abcdef-secret"
PATHS = ("/", "/page.css", "/page.js", "/metrics", "/api/status", "/healthz", "/nothing")


def config(folder: Path):
    return load_config(
        write_config(folder / "pgrepl.toml", "host=127.0.0.1 port=1", {"shop": "port=1 dbname=x"})
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(config(tmp_path_factory.mktemp("open")), is_watching=False) as (url, _):
        yield url


@pytest.fixture(scope="module")
def locked_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked")
    with served(config(folder), token=TOKEN, is_watching=False) as (url, _):
        yield url


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_strict_headers(url, path):
    headers = ask(url, path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"])
@pytest.mark.parametrize("path", ["/", "/api/status", "/nothing"])
def test_nothing_but_reading_is_answered(url, method, path):
    answer = ask(url, path, method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.headers["Content-Security-Policy"]


def test_head_has_no_body(url):
    answer = ask(url, "/metrics", method="HEAD")
    assert (answer.status, answer.text) == (200, "")


@pytest.mark.parametrize("path", ["/metrics", "/api/status", "/nothing", "//metrics", "/page.css/"])
@pytest.mark.parametrize(
    "given",
    [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", f"Bearer é{TOKEN}"],
)
def test_facts_need_the_token(locked_url, path, given):
    headers = {} if given is None else {"Authorization": given.encode().decode("latin-1")}
    answer = ask(locked_url, path, headers=headers)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert TOKEN not in answer.text


def test_token_opens(locked_url):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(locked_url, "/metrics", headers=headers).status == 200
    assert ask(locked_url, "/api/status", headers=headers).status == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_files_of_the_page_and_probes_need_no_token(locked_url, path):
    assert ask(locked_url, path).status != 401


def test_name_of_another_site_that_leads_here_is_refused(url, locked_url):
    attack = {"Host": "evil.example:9815"}
    assert ask(url, "/metrics", headers=attack).status == 421
    assert ask(url, "/metrics", headers={"Host": "LOCALHOST:1"}).status == 200
    assert ask(url, "/metrics", headers={"Host": "[::1]:1"}).status == 200
    # Behind a proxy it has another name; the token is what keeps others out.
    headers = {**attack, "Authorization": f"Bearer {TOKEN}"}
    assert ask(locked_url, "/metrics", headers=headers).status == 200


def test_address_that_it_listens_on_is_no_other_site(tmp_path):
    with served(config(tmp_path), host="127.0.0.2", is_watching=False) as (other_url, _):
        assert other_url.startswith("http://127.0.0.2:")
        assert ask(other_url, "/metrics").status == 200


def test_nobody_is_led_elsewhere(locked_url):
    headers = {"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"}
    for path in ("/api/status/", "/metrics/"):
        answer = ask(locked_url, path, headers=headers)
        assert (answer.status, answer.headers["Location"]) == (404, None)


def test_what_is_no_request_does_no_harm(url):
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    for sent in (
        b"\0\0\0\n\n",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
        b"GET " + b"/" * 99_999,
    ):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(sent)
    assert ask(url, "/").status == 200


def test_before_the_first_look_it_is_not_ready_and_says_nothing_of_sources(url):
    assert ask(url, "/readyz").status == 503
    answer = ask(url, "/metrics")
    assert answer.value("pgrepl_up") == 0
    assert ask(url, "/api/status").json["facts"]["status"] is None
