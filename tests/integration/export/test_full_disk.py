"""An export whose disk is full: nothing is lost, nothing is half there."""

from __future__ import annotations

import threading

import pytest

from pgrepl.errors import TargetUnavailable
from pgrepl.export.plan import ExportSettings
from pgrepl.export.run import Exporter
from tests.integration.export.test_files import ORDERS
from tests.support.machine.small_disk import filled, small_disk
from tests.support.streams.exporting import FileExport
from tests.support.waiting import wait_until


@pytest.mark.parametrize("file_format", ["json", "parquet"])
def test_export_to_a_full_disk_goes_on_when_there_is_room(live_of, file_format):
    live = live_of("pgoutput", ORDERS)
    live.follow()
    with small_disk(4) as place:
        export = FileExport(live, place / "out", file_format=file_format)
        export.run()
        live.source.execute(
            "insert into app.orders select g, md5(g::text), g from generate_series(1, 3000) g"
        )
        live.follow()
        with filled(place, 20_000):
            with pytest.raises(TargetUnavailable, match="No space left"):
                export.run()
            assert not list(export.folder.glob("app.orders/*/*"))
            # A service waits for room.
            settings = ExportSettings(backoff_s=0.01, backoff_limit_s=0.05)
            source = live.config.sources["shop"]
            service = Exporter(live.config, source, export.plan(), settings)
            running = threading.Thread(target=service.run, kwargs={"once": False})
            running.start()
        wait_until(lambda: list(export.folder.glob("app.orders/*/*")))
        service.stop()
        running.join()
        assert len(list(export.folder.glob("app.orders/*/*"))) == 1
        if file_format == "json":
            assert [r["key"]["id"] for r in export.records("app.orders")] == [*range(1, 3001)]
