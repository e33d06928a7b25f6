"""The live page of runs: what it shows of each, and its server, which this machine alone can reach.

A `WatchedRun` reads a run's files as they grow. `WatchServer` answers the page, which asks every other second
for what is new and gets texts, numbers and the pictures that `curro.runs.report.drawing` draws.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from curro.core.errors import RunError
from curro.core.text import printable, slug
from curro.runs.folder import RunFolder
from curro.runs.json_lines import BLOCK
from curro.runs.reader import History, RunReader
from curro.runs.report.advice import advise, headlines, signal_share, verdict
from curro.runs.report.charts import Chart, Series, trailing_mean
from curro.runs.report.drawing import live_picture, style_sheet
from curro.runs.report.inspect import saved_curriculum
from curro.runs.report.prompts import PromptHistory, RolloutsReader, rankings
from curro.runs.report.sections import sections

RECENT = 20
"""The number of steps over which the latest numbers of a run are taken."""

PROMPTS = 12
"""The number of prompts that each ranking shows."""

FIRST = BLOCK // 8
"""Bytes that are read before the first picture."""

KEY = 200
"""Characters of a key that are shown."""


class WatchedRun:
    """Reads one run's files, and says what the page shows of it.

    Attributes:
        name: what the page calls it.
        error: why it cannot be read, in a sentence; empty where it can.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name, self.error = path, name, ""
        self._lock = threading.Lock()
        self._reader: RunReader | None = None
        self._rollouts: RolloutsReader | None = None
        self._answer: dict[str, Any] = {}
        self._answer_again = 0.0
        self._answering = threading.Lock()

    def advance(self) -> bool:
        """Read one more block of the files, and return whether there is more to read now."""
        with self._lock:
            try:
                if self._reader is None:
                    folder = RunFolder.open(self.path)
                    self._reader = RunReader(folder)
                    self._rollouts = RolloutsReader(folder.rollouts_file)
                more = self._reader.advance(BLOCK if self._reader.version else FIRST)
                assert self._rollouts is not None
                more = self._rollouts.advance() or more
            except (RunError, OSError) as error:
                self.error, more = printable(str(error)), False
            else:
                self.error = ""
            return more

    @property
    def version(self) -> int:
        """Grows when there is something new to show."""
        if self._reader is None or self._rollouts is None:
            return -1
        return self._reader.version + self._rollouts.version

    def history(self) -> History | None:
        """The run so far; None before its first line."""
        with self._lock:
            return self._reader.history() if self._reader and self._reader.lines else None

    def summary(self) -> dict[str, Any]:
        """A line of the list of runs."""
        left = sum(reader.left for reader in (self._reader, self._rollouts) if reader is not None)
        return {"name": self.name, "error": self.error, "version": self.version, "left": left}

    def content(self) -> dict[str, Any]:
        """All that the page shows of the run.

        What costs seconds is made anew after twenty times as many at the earliest, so that a page of a long
        run takes no more than a twentieth of a core from it.
        """
        with self._answering:
            if self._answer.get("version") != self.version and time.monotonic() >= self._answer_again:
                self._answer = self._made()
            return {**self.summary(), **self._answer}

    def _made(self) -> dict[str, Any]:
        version = self.version
        history = self.history()
        if history is None:
            return {"waiting": True}
        begun = time.thread_time()
        answer = {
            "version": version,
            "method": history.method,
            "step": history.last("step"),
            "steps": history.steps,
            "verdict": asdict(verdict(history)),
            "advice": [asdict(finding) for finding in advise(history)],
            "headlines": [asdict(headline) for headline in headlines(history)],
            "sections": [
                {"title": title, "charts": [live_picture(chart) for chart in charts]}
                for title, charts in sections(history)
            ],
            "rankings": [_ranking(ranking) for ranking in rankings(history.groups, PROMPTS)],
            "kept": self._rollouts is not None and len(self._rollouts) > 0,
        }
        seconds = time.thread_time() - begun
        self._answer_again = time.monotonic() + 20 * seconds
        return {**answer, "seconds": round(seconds, 3)}

    def prompt(self, number: int) -> dict[str, Any] | None:
        """The history of one prompt, with the rollouts that were kept; None for one that was never drawn."""
        history = self.history()
        if history is None or self._rollouts is None:
            return None
        with self._lock:
            visited = PromptHistory.of(history.groups, number, self._rollouts)
        if visited is None:
            return None
        return visited.as_json() | {"chart": _visit_rates(visited) if len(visited.visits) > 1 else None}


def _visit_rates(visited: PromptHistory) -> dict[str, Any]:
    """The picture of a prompt's success rates."""
    step, rate = (
        np.array([float(value) for value in column])
        for column in zip(*((visit.step, visit.rate) for visit in reversed(visited.visits)), strict=True)
    )
    series = [Series("", rate, step, style="points")]
    title = "Success rate at each visit"
    return live_picture(Chart("prompt-rates", title, "lines", series, "training step", y_range=(0, 1)))


def _ranking(ranking: Any) -> dict[str, Any]:
    plain = asdict(ranking)
    for prompt in plain["prompts"]:
        prompt |= {name: printable(prompt[name][:KEY]) for name in ("key", "text")}
    return plain


_PICTURES = (
    ("eval/pass@1", "Held-out pass@1 against rollouts", False),
    ("signal_share", "Share of groups with signal", True),
    ("reward", "Mean reward of the training rollouts", True),
)


def side_by_side(runs: Sequence[WatchedRun]) -> dict[str, Any]:
    """The curves of all runs that have begun, against rollouts, and a version number that grows with them."""
    begun = [(run.name, history) for run in runs if (history := run.history()) is not None]
    charts = [_chart(begun, *picture) for picture in _PICTURES]
    return {
        "version": sum(run.version for run in runs),
        "columns": ["run", "step", "rollouts", "held-out pass@1", "groups with signal", "mean reward"],
        "rows": [[name, *_numbers(history)] for name, history in begun],
        "charts": [live_picture(chart) for chart in charts if chart],
    }


def _numbers(history: History) -> list[str]:
    """A run's line of the comparison: where it is, and its latest numbers."""
    accuracy = history.last("eval/pass@1")
    recent = _recent_signal_share(history), _recent_reward(history)
    return [
        f"{history.last('step'):,.0f}",
        f"{history.last('rollouts'):,.0f}",
        "-" if accuracy != accuracy else f"{accuracy:.3f}",
        *("-" if number != number else f"{number:.2f}" for number in recent),
    ]


def _recent_signal_share(history: History) -> float:
    """The share of the groups of the last steps that have a signal; NaN where there are none."""
    step_S = history.series("signal_share")[0][-RECENT:]
    if not len(step_S):
        return np.nan
    rows = np.flatnonzero(history.groups.step >= step_S[0])
    return signal_share(history, rows) if len(rows) else np.nan


def _recent_reward(history: History) -> float:
    """The mean reward of the rollouts of the last steps; NaN where there are none."""
    spent_S, reward_S = history.series("reward", "rollouts")
    rollouts_S = np.diff(spent_S, prepend=0.0)[-RECENT:]
    total = float(rollouts_S.sum())
    return float(rollouts_S @ reward_S[-RECENT:]) / total if total > 0 else np.nan


def _chart(runs: list[tuple[str, History]], metric: str, title: str, smooth: bool) -> Chart | None:
    series = []
    for i, (name, history) in enumerate(runs):
        x, y = history.series(metric, "rollouts")
        if len(x):
            curve = trailing_mean(y, RECENT) if smooth else y
            series.append(Series(name, curve, x, i % 7, "line" if smooth else "points"))
    caption = "Mean of the last twenty steps." if smooth else ""
    if not series:
        return None
    return Chart(f"all-{slug(metric)}", title, "lines", series, "training rollouts", caption=caption)


HOST = "127.0.0.1"
PAUSE = 1.0
"""Seconds between looks at the files."""

_STATIC = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/figure.js": ("figure.js", "text/javascript; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs at these paths, in their order: a folder of runs gives its runs, files are none.

    A path where nothing is yet, or an empty folder, stays: its run may begin.
    """
    runs: list[Path] = []
    for path in paths:
        if path.is_file():
            continue
        inside = [] if _is_run(path) or not path.is_dir() else sorted(filter(_is_run, path.iterdir()))
        if path.is_dir() and not inside and not _is_run(path) and any(path.iterdir()):
            if saved_curriculum(path) is not None:
                raise RunError(
                    f"{path} has a saved curriculum, but no run folder `curro` beside it with lines to show: "
                    f"curro inspect {path} shows its prompt table"
                )
            raise RunError(
                f"{path} holds no run and no folder with one: name the folder of a run, such as the --out of "
                "curro train or the output_dir of a TRL script"
            )
        runs += inside or [path]
    if not runs:
        raise RunError("only files were named: name the folders of runs, or the folder that holds them")
    return list(dict.fromkeys(runs))


def _is_run(path: Path) -> bool:
    try:
        RunFolder.open(path)
    except RunError:
        return False
    return True


def run_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as it takes to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    deepest = max(map(len, parts))
    for depth in range(1, deepest + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            return names
    return [str(path) for path in paths]


class WatchServer(ThreadingHTTPServer):
    """Serves the page and follows the runs in a thread of its own.

    It listens on the loopback interface. Requests that name another host are refused, so that a page of the
    web whose name was pointed at this machine (DNS rebinding) reads nothing.

    Args:
        runs: what is shown.
        port: 0 takes a free one.
        folders: of runs; those that begin there later are shown too.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, runs: Sequence[WatchedRun], port: int = 0, folders: Sequence[Path] = ()) -> None:
        self.runs = list(runs)
        self._folders = list(folders)
        self._closing = threading.Event()
        self._follower = threading.Thread(target=self._follow, daemon=True)
        super().__init__((HOST, port), _Handler)  # which calls `server_close` where the port is taken
        self._follower.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def server_close(self) -> None:
        self._closing.set()
        if self._follower.is_alive():
            self._follower.join()
        super().server_close()

    def _follow(self) -> None:
        while not self._closing.is_set():
            more = [run.advance() for run in self.runs]
            if not any(more):
                self._add_new_runs()
                self._closing.wait(PAUSE)

    def _add_new_runs(self) -> None:
        shown = {run.path for run in self.runs}
        for folder in self._folders:
            with contextlib.suppress(OSError):  # it is being moved or mounted: a later look finds it
                new = [path for path in sorted(folder.iterdir()) if path not in shown and _is_run(path)]
                self.runs += [WatchedRun(path, path.name) for path in new]

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
        if asked.path == "/charts.css":
            self._send(200, style_sheet().encode(), "text/css; charset=utf-8")
            return
        if asked.path in _STATIC:
            name, kind = _STATIC[asked.path]
            self._send(200, (files("curro.runs.watch") / "page" / name).read_bytes(), kind)
            return
        reply = self.server.answer(asked.path, parse_qs(asked.query))
        if reply is None:
            self._send(404, b"null", "application/json")
        else:
            self._send(200, json.dumps(reply, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because the page sends a request every other second."""
