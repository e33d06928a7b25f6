"""The server of the live page: the standard library's, on this machine alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from curro.report.charts import Chart, Series, trailing_mean
from curro.runs.reader import History
from curro.watch.watched import WatchedRun

_PICTURES = (
    ("eval/pass@1", "Held-out pass@1 against rollouts", False),
    ("signal_share", "Share of groups with signal", True),
    ("reward", "Mean reward of the training rollouts", True),
)


def side_by_side(runs: Sequence[WatchedRun]) -> dict[str, Any]:
    """The curves of all runs that have begun, against rollouts; and a version that grows with them."""
    found = [(run.name, history) for run in runs if (history := run.history()) is not None]
    charts = [_chart(found, *picture) for picture in _PICTURES]
    return {
        "version": sum(run.version for run in runs),
        "charts": [chart.as_json() for chart in charts if chart],
    }


def _chart(runs: list[tuple[str, History]], metric: str, title: str, smooth: bool) -> Chart | None:
    series = []
    for i, (name, history) in enumerate(runs):
        x, y = history.series(metric, "rollouts")
        if len(x):
            curve = trailing_mean(y, 20) if smooth else y
            series.append(Series(name, curve, x, i % 7, "line" if smooth else "points"))
    caption = "Mean of the last twenty steps." if smooth else ""
    slug = metric.replace("/", "-").replace("@", "-")
    return (
        Chart(f"all-{slug}", title, "lines", series, "training rollouts", caption=caption) if series else None
    )


HOST = "127.0.0.1"
PAUSE = 1.0
"""Seconds between looks at the files."""

_STATIC = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class WatchServer(ThreadingHTTPServer):
    """Serves the page and follows the runs in a thread of its own.

    It listens on the loopback interface. Requests that name another host are refused, so that a page of the
    web whose name was pointed at this machine (DNS rebinding) reads nothing.

    Args:
        runs: what is shown.
        port: 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, runs: Sequence[WatchedRun], port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.runs = list(runs)
        self._closing = threading.Event()
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def server_close(self) -> None:
        self._closing.set()
        self._follower.join()
        super().server_close()

    def _follow(self) -> None:
        while not self._closing.is_set():
            more = [run.advance() for run in self.runs]
            self._closing.wait(0 if any(more) else PAUSE)

    def is_own(self, host: str | None) -> bool:
        """Whether a request's Host is this server."""
        return host in (f"{HOST}:{self.port}", f"localhost:{self.port}")

    def answer(self, path: str, query: dict[str, list[str]]) -> Any:
        """What the page asks for, to be sent as JSON; None for what there is not."""
        if path == "/api/runs":
            return [run.summary() for run in self.runs]
        if path == "/api/side-by-side":
            return side_by_side(self.runs)
        run = self._run(query)
        if run is None:
            return None
        if path == "/api/run":
            is_known = query.get("version") == [str(run.version)]
            return run.summary() if is_known else run.content()
        number = query.get("prompt", [""])[0]
        if path == "/api/prompt" and number.isascii() and number.isdigit() and len(number) < 16:
            return run.prompt(int(number))
        return None

    def _run(self, query: dict[str, list[str]]) -> WatchedRun | None:
        number = query.get("run", ["0"])[0]
        known = number.isascii() and number.isdigit() and len(number) < 6 and int(number) < len(self.runs)
        return self.runs[int(number)] if known else None


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    server_version, sys_version = "curro", ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if not self.server.is_own(self.headers.get("Host")):
            self._send(403, b"this page is for its own machine alone\n", "text/plain")
            return
        asked = urlsplit(self.path)
        if asked.path in _STATIC:
            name, kind = _STATIC[asked.path]
            self._send(200, (files("curro.watch") / "page" / name).read_bytes(), kind)
            return
        found = self.server.answer(asked.path, parse_qs(asked.query))
        if found is None:
            self._send(404, b"null", "application/json")
        else:
            self._send(200, json.dumps(found, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a page that asks every other second is no news."""
