"""The page in a real browser: it loads, follows by itself, and shows what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pgrepl.config.file import load_config
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import connect
from pgrepl.store.monitoring.history import Look, record_looks
from pgrepl.throwaway import Cluster
from tests.support.database import Database
from tests.support.observing.asking import served
from tests.support.observing.browser import browser, page
from tests.support.program import write_config
from tests.support.running.streaming import Streaming

__all__ = ["browser", "page"]

#: Where to put screenshots for the documentation: PGREPL_SCREENSHOTS=docs/monitoring.
SCREENSHOTS = os.environ.get("PGREPL_SCREENSHOTS")
#: A name of a table is whatever its owner wrote.
HOSTILE = "Ledger" if SCREENSHOTS else '<img src=x onerror="window.hacked=1">'


def card(page: Page, source: str):
    return page.locator(f'[data-source="{source}"]')


def test_page_loads_and_follows_by_itself(streaming, page):
    with served(load_config(streaming.config)) as (url, _):
        page.goto(url)
        told = "Nothing waits for you; 1 source is not received now"
        expect(page.locator("#summary")).to_have_text(told)
        expect(card(page, "shop")).to_contain_text("not receiving")
        expect(card(page, "shop")).to_contain_text("empty")
        streaming.source.execute("insert into t select generate_series(1, 1234)")
        streaming.receive_once()
        expect(card(page, "shop")).to_contain_text("1,234 changes in 1 segment")
        # Whatever runs in it can change nothing either.
        refused = page.evaluate(
            "Promise.all(['POST', 'PUT', 'DELETE'].map(method =>"
            " fetch('/api/status', {method}).then(answer => answer.status)))"
        )
        assert refused == [405, 405, 405]
    expect(page.locator("#age")).to_contain_text("the monitor does not answer")


def test_page_asks_for_the_token_and_keeps_it_to_itself(streaming, page):
    token = "0123456789abcdef-secret"
    with served(load_config(streaming.config), token=token) as (url, _):
        page.goto(url)
        field = page.locator("#token-field")
        field.fill("wrong")
        page.locator("#token button").click()
        expect(page.locator("#token-note")).to_have_text("That was not it.")
        field.fill(token)
        page.locator("#token button").click()
        expect(card(page, "shop")).to_contain_text("not receiving")
        expect(page.locator("#token")).to_be_hidden()
        assert token not in page.url


def fill_history(streaming: Streaming) -> None:
    """Write down a day: an idle night, a burst, a time when the source was down."""
    now = datetime.now(UTC)
    looks = []
    for minute in range(0, 24 * 60, 2):
        hour = minute / 60
        peak = max(0.0, 1 - abs(hour - 15) / 1.5)
        is_down = 19.5 < hour < 20.2
        wave = 1 + 0.5 * ((minute * 7919) % 97) / 97
        looks.append(
            Look(
                source_id=streaming.source_id,
                at=now - timedelta(hours=24 - hour),
                is_reachable=not is_down,
                is_receiving=not is_down,
                lag_bytes=None if is_down else int(wave * 40_000 + peak * 6e7),
                lag_seconds=(hour - 19.5) * 300 if is_down else 0.6 * wave + 95 * peak,
                held_bytes=16 << 20,
                spool_bytes=int(4096 + peak * 3e6),
                source_lsn=Lsn(int(hour * 4e8) + (1 << 33)),
                received_transactions=int(hour * 90_000 + peak * 50_000),
                received_changes=int(hour * 400_000 + peak * 300_000),
                applied_changes=int(hour * 399_000 + peak * 200_000),
            )
        )
    with connect(load_config(streaming.config).target.endpoint, "test") as connection:
        record_looks(connection, looks)


@pytest.fixture
def scene(
    streaming: Streaming,
    stream_from: Callable[..., Streaming],
    make_database: Callable[..., Database],
    source_cluster: Cluster,
    tmp_path: Path,
) -> Path:
    """Return a configuration with a source that is copied, one with parked tables, a dead one."""
    billing = stream_from(make_database(source_cluster, prefix="billing"), name="billing")
    warehouse = stream_from(make_database(source_cluster, prefix="warehouse"), name="warehouse")
    for one in (streaming, billing, warehouse):
        fill_history(one)
    billing.source.execute(
        "create table invoice (id int primary key)", "insert into invoice values (1), (2)"
    )
    billing.receive_once()
    target = streaming.target
    target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, reason,"
        f" sqlstate) select {billing.source_id}, 'public', unnest(array['invoice', $${HOSTILE}$$]),"
        " 'column \"total\" does not exist on the target', '42703'",
        "insert into replication.ddl_pending (source_id, log_id, commit_lsn, commit_at, tag, role,"
        f" original, error) values ({billing.source_id}, 7, '0/2', now(), 'ALTER TABLE', 'app',"
        " 'alter table invoice add total money', 'type \"money2\" does not exist')",
        "insert into replication.source_table (source_id, schema_name, table_name, state,"
        f" start_lsn) values ({streaming.source_id}, 'public', 'stock', 'copying', '0/1')",
        "insert into replication.copy_part (run_id, source_id, schema_name, table_name, size_bytes,"
        f" row_count, byte_count, seconds) select gen_random_uuid(), {streaming.source_id},"
        " 'public', 'stock', 50000000, case when n < 7 then 400000 end, 48000000, 3"
        " from generate_series(1, 9) n",
    )
    sources = {
        "shop": streaming.source.dsn(),
        "billing": billing.source.dsn(),
        "warehouse": "host=127.0.0.1 port=1 dbname=warehouse",
    }
    path = write_config(tmp_path / "scene.toml", target.dsn(), sources)
    text = path.read_text(encoding="utf-8")
    for one in (streaming, billing, warehouse):
        heading = f"[sources.{one.name}]"
        text = text.replace(heading, f'{heading}\nslot = "{one.slot}"')
    path.write_text(text, encoding="utf-8")
    return path


def test_what_waits_for_a_person_is_shown_with_the_command_and_nothing_of_it_runs(scene, page):
    with served(load_config(scene), interval_s=1) as (url, _):
        page.goto(url)
        billing, dead = card(page, "billing"), card(page, "warehouse")
        expect(billing).to_contain_text("2 parked")
        expect(billing).to_contain_text('column "total" does not exist on the target')
        expect(billing).to_contain_text(HOSTILE)
        expect(page.locator("#problems")).to_contain_text(
            "pgrepl parked retry billing public.invoice"
        )
        expect(page.locator("#problems")).to_contain_text("pgrepl ddl pending billing")
        expect(page.locator("#index")).to_be_hidden()
        expect(dead).to_contain_text("unreachable")
        expect(dead).to_contain_text("It does not answer")
        expect(page.locator("#summary")).to_contain_text("wait for you")
        page.get_by_role("button", name="24 h").click()
        expect(card(page, "shop").locator("polyline").first).to_be_visible()
        expect(card(page, "shop").locator(".gap").first).to_be_attached()
        expect(card(page, "shop")).to_contain_text("1 of 2 tables, 286 MB of 429 MB")
        assert page.evaluate("window.hacked") is None
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.scrollingElement.scrollWidth") <= width
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                if SCREENSHOTS:
                    name = f"page-{width}-{scheme}.png"
                    page.screenshot(path=Path(SCREENSHOTS) / name, full_page=True)


def test_many_sources_have_an_index(streaming, page, tmp_path):
    names = ("attic", "cellar", "yard")
    dead = {name: f"host=127.0.0.1 port=1 dbname={name}" for name in names}
    sources = {"shop": streaming.source.dsn(), **dead}
    path = write_config(tmp_path / "many.toml", streaming.target.dsn(), sources)
    with served(load_config(path)) as (url, _):
        page.goto(url)
        expect(page.locator("#index a")).to_have_count(len(sources))
        page.locator("#index a", has_text="yard").click()
        expect(page).to_have_url(f"{url}#source-yard")
        expect(card(page, "yard")).to_be_in_viewport()
