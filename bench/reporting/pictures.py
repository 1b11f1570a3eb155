"""Charts as PNG, by the browser that draws SVG anyway."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.reporting.charts import HEIGHT, WIDTH

__all__ = ["draw_png", "find_chromium"]

_NAMES = "chromium", "chromium-browser", "google-chrome"


def find_chromium() -> str:
    """Return the browser."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise SystemExit("charts need chromium: apt-get install chromium")
    return found


def draw_png(svg: str, path: Path) -> None:
    """Draw a chart into a file, at twice the size, for sharp screens."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "chart.svg")
        page.write_text(svg, encoding="utf-8")
        subprocess.run(
            [
                *(find_chromium(), "--headless", "--no-sandbox", "--disable-gpu"),
                *("--hide-scrollbars", "--force-device-scale-factor=2"),
                *(f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{HEIGHT}"),
                *(f"--screenshot={path.absolute()}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
