"""Shared by the benchmarks: result folders, a loop in virtual time, and cases tried in child processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import selectors
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from curro.runs.folder import RunFolder
from curro.runs.json_lines import append_rows, read_rows

if TYPE_CHECKING:
    from curro.reward import Reward
    from curro.reward.environments import Environment
    from curro.rollout.engines.engine import SamplingSettings
    from curro.training.plan import Plan

PAGES = Path(__file__).parent / "pages"
PICTURES = PAGES.parents[1] / "docs" / "img"
RESULTS = Path(__file__).parent / "results"


def sampled_rewards(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Any],
    reward: Reward,
    *,
    samples: int,
    settings: SamplingSettings,
    environment: Environment | None = None,
) -> np.ndarray:
    """Sample with torch's own generator and score.

    Args:
        rows: of P prompts.
        samples: G, completions a prompt; episodes, if there is an `environment`.
        settings: of a completion; an episode's observations count towards its length.

    Returns:
        rewards_PG, float64; NaN where the reward did not score.
    """
    from curro.rollout.sampling import attempts

    completions, repeated = attempts(
        model, tokenizer, rows, environment=environment, n=samples, settings=settings
    )
    scores = reward.summed(completions, repeated)
    return np.array([np.nan if score is None else score for score in scores]).reshape(len(rows), samples)


def write_page(name: str, title: str, command: str, text: str, folder: Path = RESULTS) -> None:
    """Write results/NAME.md, with the command that repeats it; pictures in it are `../../docs/img/...`.

    Args:
        folder: another folder, for rows that are not the project's.
    """
    head = f"# {title}\n\n`{command}` writes this page.\n\n"
    (folder / f"{name}.md").write_text(f"{head}{text.rstrip()}\n")


def complete_rows(
    path: Path, cases: Iterable[dict[str, Any]], make: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of a JSONL file, after those of the cases that it lacks have been made and appended.

    Args:
        cases: the columns by which a row is told from others, with their values: the arguments of `make`.
    """
    rows = list(read_rows(path))
    for case in cases:
        if not any(case.items() <= row.items() for row in rows):
            rows.append(make(**case))
            append_rows(path, rows[-1:])
            print(rows[-1], flush=True)
    return rows


def train_run(prepared: Plan) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The lines of the metrics and of the groups of a run, whose folder is gone afterwards.

    Raises:
        SystemExit: the run was stopped before its end.
    """
    from curro.training.run import train

    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", {"settings": prepared.settings.as_dict()})
        if not train(prepared, run, page=False):
            raise SystemExit("stopped before the run was complete: its row is left out")
        return run.metrics(), run.groups()


def mean_with_interval(groups: Sequence[np.ndarray]) -> str:
    """The mean over groups of the means over seeds, and Student's 95% interval over the seeds.

    Seeds spread around the mean of their own group: with S_g seeds the degrees of freedom are the sum of
    S_g - 1.

    Args:
        groups: the numbers of each group's seeds, (S,). Where a group has one seed there is no interval.
    """
    mean = np.mean([one.mean() for one in groups])
    if min(map(len, groups)) == 1:
        return f"{mean:+.3f}"
    error = np.sqrt(sum(one.var(ddof=1) / len(one) for one in groups)) / len(groups)
    degrees = sum(len(one) - 1 for one in groups)
    from scipy.stats import t as student  # not where verl is installed

    return f"{mean:+.3f} ± {student.ppf(0.975, degrees) * error:.3f}"


def write_rows(text: str, page: Path) -> None:
    """Put a table into a page, between the two comments that mark its place."""
    start, end = "<!-- benchmark -->\n", "<!-- end of benchmark -->\n"
    before, rest = page.read_text().split(start)
    page.write_text(f"{before}{start}{text}{end}{rest.split(end)[1]}")


class _Jumping(selectors.SelectSelector):
    """A selector that waits by moving the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("nothing runs and nothing is awaited: the program waits for ever")
            self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time: `asyncio.sleep(3600)` takes no time, and nothing depends on speed.

    For programs without threads and processes, whose ends it does not wait for.
    """

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """`asyncio.run` in virtual time; what goes wrong in a callback is raised."""
    wrong: list[Any] = []
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: wrong.append(context))
        result = runner.run(main)
    assert not wrong, wrong
    return result


Seed = Annotated[int, typer.Option(help="The seed of what is tried.")]
Cases = Callable[[str, int, int, Any], Mapping[str, int]]
"""(kind, cases, seed, a value that counts those that are done) -> how many ended how."""


def _work(part: Cases, kind: str, cases: int, seed: int, done: Any, answers: Any) -> None:
    answers.put(part(kind, cases, seed, done))


def watched(
    part: Cases, kind: str, cases: int, seed: int, patience: float = 600.0
) -> Mapping[str, int] | str:
    """Run the part in a process of its own: its counts, or how it crashed or hung."""
    context = multiprocessing.get_context("spawn")
    done, answers = context.Value("q", 0), context.Queue()
    process = context.Process(target=_work, args=(part, kind, cases, seed, done, answers))
    process.start()
    before, since = -1, time.monotonic()
    while process.is_alive() and answers.empty():
        process.join(0.5)
        if done.value != before:
            before, since = done.value, time.monotonic()
        elif time.monotonic() - since > patience:
            process.kill()
            return f"hung at case {before}"
    if answers.empty():
        return f"ended with exit code {process.exitcode} at case {done.value}"
    result = answers.get()
    process.join()
    return result


def all_of(part: Cases, kinds: Mapping[str, Any], cases: int, seed: int) -> None:
    """Print what each kind came to; exits with 1 where one went wrong."""
    total, wrong, begun = 0, 0, time.monotonic()
    for kind in kinds:
        result = watched(part, kind, cases, seed)
        if isinstance(result, str):
            wrong += 1
            print(f"{kind:32}{result}", flush=True)
        else:
            total += sum(result.values())
            print(f"{kind:32}" + "  ".join(f"{name} {n}" for name, n in result.items()), flush=True)
    print(f"{total} cases, {wrong} of {len(kinds)} kinds went wrong, {time.monotonic() - begun:.0f} s")
    raise SystemExit(1 if wrong else 0)
