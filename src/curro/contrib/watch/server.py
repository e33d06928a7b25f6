"""Serve the page of runs while they train, to the user who has the secret in its address.

A run's page is what `curro report` writes, rendered anew when its files have grown. The browser asks every
other second whether it has changed (`refresh.js`).
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from curro.contrib.loopback import HOST, LoopbackHandler, LoopbackServer
from curro.core.errors import RunError
from curro.core.text import printable
from curro.rollout.evaluation_results import Sheet
from curro.runs.folder import RunFolder
from curro.runs.reader import History, read_history
from curro.runs.report.page import Live, comparison_figures, run_page, tables_page

SHARE = 0.1
"""The share of a core that a page may take."""


class WatchedRun:
    """Follows the files of one run, which need not have begun.

    Attributes:
        name: what the page calls it.
        error: why it cannot be read, in a sentence; empty where it can.
        history: the run as last read; None before its first line.
        version: changes when there is something new to show.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name, self.error, self.version = path, name, "", ""
        self.history: History | None = None
        self.folder: RunFolder | None = None

    def look(self) -> None:
        """Read the run again if its files have changed."""
        try:
            self.folder = RunFolder.open(self.path)
            sizes = self.folder.sizes()
            if f"{self.path}:{sizes}" == self.version:
                return
            self.version, self.error, self.history = f"{self.path}:{sizes}", "", None
            if sizes[self.folder.metrics_file.name]:
                self.history = read_history(self.folder)
        except (RunError, OSError) as error:
            self.error, self.history = printable(str(error)), None
            self.version = f"{self.path}:{self.error}"

    def page(self, version: str, several: bool) -> str:
        """Render the run's page, or the sentence that says why there is none yet."""
        live = Live(version, self.error, several)
        if self.history is None or self.folder is None:
            note = [] if self.error else ["The run has not begun."]
            return tables_page(f"curro: {self.name}", None, note, live=live)
        return run_page(self.folder, self.history, live)


def overview(runs: Sequence[WatchedRun], version: str) -> str:
    """Render the list and the curves of several runs."""
    histories = {run.name: run.history for run in runs if run.history is not None}
    return tables_page(
        f"{len(runs)} runs",
        Sheet("", ("run", "step", "rollouts"), tuple(map(_row, runs))),
        (),
        comparison_figures({name: [history] for name, history in histories.items()}),
        {run.name: str(i) for i, run in enumerate(runs)},
        Live(version),
    )


def _row(run: WatchedRun) -> tuple[str, ...]:
    if run.history is None:
        return run.name, run.error or "not begun", ""
    return run.name, *(f"{run.history.last(name):,.0f}" for name in ("step", "rollouts"))


class WatchServer(LoopbackServer):
    """Serves the pages below a path that is a secret.

    Other users of the machine reach the server too, and so does a page of the web whose name was pointed
    at this machine (DNS rebinding): neither knows the path.

    Args:
        runs: what is shown.
        port: 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, runs: Sequence[WatchedRun], port: int = 0) -> None:
        self.runs = list(runs)
        self.secret = secrets.token_urlsafe(24)
        self._drawing = threading.Lock()  # matplotlib's settings are the process's
        self._pages: dict[str, tuple[str, float, str]] = {}
        super().__init__(port, _Handler)

    @property
    def url(self) -> str:
        """The address with the secret in it."""
        return f"http://{HOST}:{self.port}/{self.secret}/"

    def page(self, name: str) -> tuple[str, str] | None:
        """The version and the page of this name: a run's number, or empty for the first page.

        What takes s seconds is rendered again after s / `SHARE` seconds at the earliest. None for a name
        without a page.
        """
        shown = [run for i, run in enumerate(self.runs) if name in ("", str(i))]
        if not shown:
            return None
        with self._drawing:
            version, not_before, page = self._pages.get(name, ("", 0.0, ""))
            if time.monotonic() < not_before:
                return version, page
            begun = time.thread_time()
            for run in shown:
                run.look()
            new = f"{hash(tuple(run.version for run in shown)) & (1 << 63) - 1:x}"
            if new != version:
                is_one = len(shown) == 1
                page = shown[0].page(new, len(self.runs) > 1) if is_one else overview(shown, new)
            not_before = time.monotonic() + (time.thread_time() - begun) / SHARE
            self._pages[name] = new, not_before, page
            return new, page

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong in a line; a browser that went away is nothing to say."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"curro: a request failed: {error!r}", file=sys.stderr)


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Handler(LoopbackHandler):
    server: WatchServer

    def do_GET(self) -> None:
        secret, _, name = self.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(secret.encode(), self.server.secret.encode()):
            self._send(403, "open the address that curro watch printed: it has a secret in it\n")
            return
        self.server.trust(self.connection)
        if name == "refresh.js":
            script = (files("curro.contrib.watch") / "refresh.js").read_text(encoding="utf-8")
            self._send(200, script, "text/javascript")
        elif (shown := self.server.page(name)) is None:
            self._send(404, "there is no such page\n")
        elif self.headers.get("If-None-Match") == f'"{shown[0]}"':
            self._send(304, "")
        else:
            self._send(200, shown[1], "text/html")

    def _send(self, status: int, text: str, kind: str = "text/plain") -> None:
        self.reply(status, text.encode(), f"{kind}; charset=utf-8", _HEADERS)
