"""The pictures of docs/watch.md: `curro watch` on simulated runs, in light, in dark and at phone width.

    python -m benchmarks.hosts.screenshots

Needs Chromium and its driver (Debian's chromium-driver).
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from benchmarks.common import PICTURES
from benchmarks.hosts.browser import Browser
from benchmarks.hosts.simulated_runs import simulated_run

from curro.watch.server import WatchedRun, WatchServer

SHOTS = (
    ("watch-light", 1280, 1180, False),
    ("watch-dark", 1280, 1180, True),
    ("watch-phone", 390, 1180, False),
)
RUNS = {"posterior": "posterior:exploration=0.25", "uniform": "uniform"}


class Page:
    """An address as the browser of the tests takes it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def as_uri(self) -> str:
        return self.url


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        runs = [
            WatchedRun(simulated_run(folder / name, spec, steps=240).path, name)
            for name, spec in RUNS.items()
        ]
        browser = Browser(folder / "profile")
        try:
            with WatchServer(runs) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                for name, width, height, dark in SHOTS:
                    browser.open(Page(server.url), width=width, dark=dark)
                    while browser.run("return document.querySelectorAll('figure > svg text').length") < 100:
                        threading.Event().wait(0.2)
                    threading.Event().wait(1)
                    browser.screenshot(PICTURES / f"{name}.png", height=height)
                server.shutdown()
        finally:
            browser.close()


if __name__ == "__main__":
    main()
