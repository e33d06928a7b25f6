"""A run that is being watched: what was read of it so far, as the page asks for it."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from curro.errors import RunError
from curro.report.advice import advise, headlines, verdict
from curro.report.prompt_history import PromptHistory, RolloutsReader
from curro.report.rankings import rankings
from curro.report.sections import sections
from curro.runs.folder import RunFolder
from curro.runs.reader import History, RunReader
from curro.storage.json_lines import BLOCK
from curro.text import printable

PROMPTS = 12
"""Of each ranking."""

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
        """Read a block more; whether there is more to read now."""
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
        left = sum(one.left for one in (self._reader, self._rollouts) if one is not None)
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
            "steps": history.config.get("steps"),
            "verdict": asdict(verdict(history)),
            "advice": [asdict(one) for one in advise(history)],
            "headlines": [asdict(one) for one in headlines(history)],
            "sections": [
                {"title": title, "charts": [chart.as_json() for chart in charts]}
                for title, charts in sections(history)
            ],
            "rankings": [_ranking(one) for one in rankings(history.groups, PROMPTS)],
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
            found = PromptHistory.of(history.groups, number, self._rollouts)
        return None if found is None else found.as_json()


def _ranking(ranking: Any) -> dict[str, Any]:
    found = asdict(ranking)
    for prompt in found["prompts"]:
        prompt["key"] = printable(prompt["key"][:KEY])
    return found
