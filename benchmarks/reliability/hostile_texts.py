"""Hostile texts through everything that stores, shows or scores a text.

Markup of pages, of terminals, of rich, of templates and of formulas; lone surrogates, text from right to
left, NUL, lines of a megabyte, nesting and numbers without end. What goes through has to come out as it went
in, or end in an error of curro's; a page has no element that it would not have without, a terminal gets no
control character, and no text takes longer than `PATIENCE` seconds. `faults.py texts` makes many.
"""

from __future__ import annotations

import html
import io
import json
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from curro import Curriculum, CurroError, RewardError
from curro.runs.folder import RunFolder

PATIENCE, AT_ONCE = 60.0, 50
PIECES = (
    "<script>alert(1)</script>", "</td></table><img src=x onerror=alert(1)>", "</style><svg onload=alert(1)>",
    "<!--", "-->", "]]>", "<a href='javascript:alert(1)'>x</a>", "&lt;b&gt;", "&#60;script&#62;", "\"'><b>",
    "\x1b[31m", "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\", "\x9b31m", "\r",
    "\b" * 9, "\x7f", "\x00", "\u202eabc\u202c", "\u2066x\u2069", "\u200f", "\u2028", "\u2029", "\x85",
    "\ufeff",     "\ud800", "\udfff\ud800", "\ufffe", "\U0010ffff", "e" + "\u0301" * 60, "\u200b", "👩‍👩‍👧‍👦",
    "[red]x[/red]", "[/]", "[bold", "[link=file:///etc/passwd]x[/link]", "[@click=app.quit]x[/]",
    "{{ 7*7 }}", "{% for x in range(9**9) %}x{% endfor %}", "{{ ''.__class__.__mro__ }}", "{0.__class__}",
    "%s%n%d",
    "$\\frac{1}{0}$", "$x_{", "$$", "\\input{/etc/passwd}", "\\boxed{", "\\boxed{9**9**9}", "\\boxed{1/0}",
    "9" * 5000, "1e999999", "9**9**9**9", "nan", "-inf", "0x" + "f" * 99,
    "[" * 3000, "{\"a\":" * 2000, "(" * 3000,
    "<think>", "</think>", "<answer>", "```python\n", "```", "import os; os.system('id')", "__import__('os')",
    "cos_posix_system\n(S'id'\ntR.", "!!python/object/apply:os.system [id]", "=cmd|' /C calc'!A0",
    "../../etc/passwd",
    "; rm -rf ~", "`id`", "$(id)", "\n", "\n\n", "\t", " ", "", "a", "key", "NaN", "null", "true",
    ",", '"', "\\",
)  # fmt: skip
OWN_STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""What rich writes for its own tables."""


def text_of(rng: np.random.Generator) -> str:
    """A few pieces one after the other; one text in a hundred is a megabyte."""
    pieces = [PIECES[int(i)] for i in rng.integers(len(PIECES), size=rng.integers(1, 6))]
    if rng.random() < 0.01:
        pieces.insert(0, (pieces[0] or "x") * (10**6 // max(len(pieces[0]), 1)))
    return "".join(pieces)


def keys_of(texts: Sequence[str]) -> list[str]:
    """The texts as keys: each its own, and none that a data set could not have."""
    return [f"{text.encode('utf-8', 'replace').decode()}#{i}" for i, text in enumerate(texts)]


def same(restored: Any, expected: Any, what: str) -> None:
    assert restored == expected, f"{what} did not come back as it was"


def says_no_control_character(error: CurroError) -> None:
    assert shown(str(error)).isprintable(), "an error says control characters"


# ------------------------------ the places ------------------------------


def table(texts: Sequence[str], folder: Path) -> dict[str, int]:
    """Keys of a data set, in the table's file and in a checkpoint of a method that names its sources."""
    refused = 0
    for text in texts:
        try:
            Curriculum("uniform", [text, text + "#"])
        except CurroError as error:
            refused += 1
            says_no_control_character(error)
    keys = keys_of(texts)
    curriculum = Curriculum("prioritized-replay", keys, seed=0)
    draw = curriculum.select(min(8, len(keys)), step=1)
    curriculum.observe(draw.tickets, np.arange(4) < np.arange(len(draw))[:, None] % 5)
    run = RunFolder.create(folder / "run", {"data": texts[0]})
    run.write_table(curriculum.table)
    same(run.table()["key"].to_pylist(), keys, "a table's keys")
    same(run.config["data"], texts[0], "a setting")
    curriculum.save(folder / "saved.npz")
    twin = Curriculum("prioritized-replay", keys, seed=0)
    twin.load(folder / "saved.npz")
    same(twin.select(1, step=2).prompts.tolist(), curriculum.select(1, step=2).prompts.tolist(), "a draw")
    return {"refused": refused, "kept": len(texts) - refused}


def log(texts: Sequence[str], folder: Path) -> dict[str, int]:
    """Rows of the logs, read back; half a line is replaced by what comes next."""
    run = RunFolder.create(folder / "run", {})
    rows = [{"step": i, "key": text, text[:1000]: i} for i, text in enumerate(texts)]
    run.append_groups(rows[:-1])
    with (run.path / "groups.jsonl").open("ab") as file:
        file.write(json.dumps(rows[-1]).encode()[: 1 + len(texts[-1]) // 2])
    run.append_groups(rows[-1:])
    as_json = json.loads(json.dumps(rows))  # which makes one character of two surrogates that are a pair
    same(run.groups(), as_json, "a line of the log")
    lines = (run.path / "groups.jsonl").read_bytes().count(b"\n")
    same(lines, len(rows), "the number of lines")
    return {"kept": len(texts)}


class Page(HTMLParser):
    """The elements of a page with the names of their attributes, and all of its text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.texts: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements |= {tag, *(f"{tag} {name}" for name, _ in attrs)}
        for name, value in attrs:
            assert name not in ("src", "srcset", "href", "action") or (value or "").startswith("#")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page(texts: Sequence[str], folder: Path) -> dict[str, int]:
    """The page of a run with these keys and settings: no element that a run with plain texts has not."""
    pages = [Page(run_of(names, folder / name)) for name, names in (
        ("plain", [f"text {i}" for i in range(len(texts))]), ("hostile", texts))]  # fmt: skip
    assert pages[1].elements <= pages[0].elements, pages[1].elements - pages[0].elements
    everything = "".join(pages[1].texts)
    assert not set(everything) & set(map(chr, range(0xD800, 0xE000))), "a lone surrogate in a page"
    readable = sum(html.unescape(shown(text))[:40] in everything for text in texts if len(text) < 1000)
    assert readable, "none of the texts is in the page"
    return {"shown": len(texts)}


def run_of(texts: Sequence[str], folder: Path) -> str:
    """The page of a small run."""
    from curro.runs.report.page import write_report

    keys = keys_of(texts)
    settings = {f"{text[:50]}{i}": text[:5000] for i, text in enumerate(texts)}
    curriculum = Curriculum("prioritized-replay", keys, seed=0)
    run = RunFolder.create(folder, {"settings": settings, "data": texts[0], "curriculum": curriculum.config})
    for step in range(1, 4):
        draw = curriculum.select(min(8, len(keys)), step=step)
        rewards_PG = (np.arange(4) < np.arange(len(draw))[:, None] % 5).astype(float)
        verdict = curriculum.observe(draw.tickets, rewards_PG)
        run.append_groups(
            {
                "step": step, "prompt": prompt, "key": keys[prompt], "reason": draw.reasons[i],
                "mean": rewards_PG[i].mean(), "variance": verdict.informativeness[i], "admitted": True,
            }
            for i, prompt in enumerate(draw.prompts)
        )  # fmt: skip
        run.append_metrics({"step": step, "rollouts": 4 * step, "seconds": 1.0, "reward": 0.5,
                            "signal_share": 0.5, **curriculum.metrics()})  # fmt: skip
    run.write_table(curriculum.table)
    return write_report(run).read_text(encoding="utf-8")


def shown(text: str) -> str:
    from curro.core.text import printable

    return printable(text)


def terminal(texts: Sequence[str], folder: Path) -> dict[str, int]:
    """`curro inspect`, and the sentence of an error: no control character but those of rich's own tables."""
    from curro import cli
    from curro.runs.report.inspect import inspect_run

    run_of(texts, folder / "run")
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=200, markup=False, highlight=False)
    inspect_run(folder / "run", len(texts), console)
    clean = OWN_STYLE.sub("", written.getvalue())
    assert clean.replace("\n", "").isprintable(), [c for c in clean if c != "\n" and not c.isprintable()][:5]
    for text in texts:
        said = io.StringIO()
        with redirect_stderr(said), suppress(SystemExit):
            cli._end(f"no data at {text}")
        assert said.getvalue().removesuffix("\n").isprintable(), "an error's sentence moves the cursor"
    return {"shown": len(texts)}


@cache
def rewards() -> list[Any]:
    from curro.reward import resolve_reward

    names = ("exact", "math", "format", "language", "overlong:limit=100,buffer=10",
             "function-calls")  # fmt: skip
    return [resolve_reward(name) for name in names]


def scores(texts: Sequence[str], folder: Path) -> dict[str, int]:
    """As `_scores`, without the warnings of answers that only stand for one."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return _scores(texts, folder)


def _scores(texts: Sequence[str], folder: Path) -> dict[str, int]:
    """Completions, and answers of the data set: every reward that runs no program gives a finite number."""
    from curro.methods.prediction.metis.predictor import read_prediction
    from curro.reward.code_tests import read_tests
    from curro.reward.programs import program_of

    refused = 0
    for reward in rewards():
        valid = '[{"f": {"a": [1]}}]' if reward.name == "function-calls" else "7"
        for i, text in enumerate(texts):
            begun = time.monotonic()
            row = {"prompt": "p", "key": str(i), "answer": texts[-i - 1][:9000] if i % 2 else valid}
            try:
                values = reward.score([text], [row])
                assert all(score is None or np.isfinite(score) for score in values)
            except RewardError:
                refused += 1
            seconds = time.monotonic() - begun
            assert seconds < PATIENCE, f"{reward.name} took {seconds:.0f} s"
    for text in texts:
        begun = time.monotonic()
        program_of(text)
        predicted = read_prediction(text)
        assert np.isnan(predicted) or 0 <= predicted <= 0.25
        try:
            read_tests({"tests": text, "key": "k"})
        except RewardError:
            refused += 1
        assert time.monotonic() - begun < PATIENCE
    return {"scored": len(texts), "refused on the way": refused}


def data(texts: Sequence[str], folder: Path) -> dict[str, int]:
    """Prompts and answers of a data file, as they were written; or one error that says which row."""
    from curro.data.load import load_prompts

    refused, path = 0, folder / "data.jsonl"
    for start in range(0, len(texts), 5):
        some = texts[start : start + 5]
        rows = [{"prompt": f"{text}?", "answer": text, "id": f"{i}"} for i, text in enumerate(some)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        try:
            prompts = load_prompts(str(path))
        except CurroError as error:
            says_no_control_character(error)
            refused += len(some)
            continue
        same([row["prompt"] for row in prompts], [row["prompt"] for row in rows], "a prompt")
        same([row["answer"] for row in prompts], [row["answer"] for row in rows], "an answer")
    return {"refused": refused, "kept": len(texts) - refused}


PLACES: dict[str, Callable[[Sequence[str], Path], dict[str, int]]] = {
    "table": table, "log": log, "page": page, "terminal": terminal, "scores": scores, "data": data,
}  # fmt: skip


def hostile_texts(kind: str, cases: int, seed: int, done: Any = None) -> dict[str, int]:
    """How many texts a place kept, showed, or refused in an error of curro's.

    Raises:
        AssertionError: one was lost, changed, run or took too long; named with what repeats it.
    """
    counts: dict[str, int] = {}
    for start in range(0, cases, AT_ONCE):
        rng = np.random.default_rng([seed, start])
        texts = [text_of(rng) for _ in range(min(AT_ONCE, cases - start))]
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcomes = PLACES[kind](texts, Path(folder))
            except Exception as error:
                raise AssertionError(f"{kind}, seed {seed}, texts from {start}: {error!r:.2000}") from error
        counts = {name: counts.get(name, 0) + number for name, number in outcomes.items()}
        if done is not None:
            done.value = start + len(texts)
    return counts
