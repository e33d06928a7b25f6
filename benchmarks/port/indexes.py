"""What a batch costs: select C prompts and update C priorities, with every index and its peers.

    python -m benchmarks.port.indexes                 # results/index.md and its picture: ten minutes
    python -m benchmarks.port.indexes --big           # a hundred million prompts: 12 GB of memory
    python -m benchmarks.port.indexes --quick         # a minute, writes nothing

One process, one thread; the candidates of a table take turns of five batches, so that what disturbs one
disturbs all; medians. Trust the ratios: absolute times move with the machine and with what else it does.
A slow candidate has fewer turns, one that does not import is named with the reason.
"""

import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import PICTURES, write_page
from benchmarks.port.index_peers import GROUPS, PRIORITIES, Candidate, Floor, missing

from curro import PromptTable
from curro.core import checkpoint
from curro.methods.index import MaxHeap, SumTree

BATCHES = (64, 512, 4096)
RUN = 5
"""Batches in a row that a candidate has in a turn."""
Clock = Callable[[], float]
Times = dict[tuple[str, str, str, int, int], float]
"""Microseconds for (group, priorities, label, size, batch)."""


def measure(
    group: str,
    priorities: str,
    size: int,
    batches: tuple[int, ...],
    turns: int,
    patience: float,
    times: Times,
    clock: Clock,
) -> None:
    """Time the candidates of a group at one size, in turns."""
    rng, draw = np.random.default_rng(0), PRIORITIES[priorities]
    start = draw(rng, size)
    kinds = [kind for kind in GROUPS[group] if size <= kind.largest and not missing(kind)]
    candidates = [kind(start, np.random.default_rng(1)) for kind in kinds]
    for count in batches:
        if 4 * count > size:
            continue
        taken: dict[Candidate, list[float]] = defaultdict(list)
        for _ in range(turns):
            for candidate in candidates:
                spent = taken[candidate]
                for _ in range(RUN):
                    if len(spent) >= RUN and sum(spent) > patience:
                        break
                    fresh = draw(rng, count)
                    if isinstance(candidate, Floor):
                        candidate.prepare(count)
                    spent.append(one_batch(candidate, count, fresh, clock))
        for candidate, spent in taken.items():
            cost = statistics.median(spent) * 1e6
            times[group, priorities, candidate.label, size, count] = cost
            typer.echo(f"{group}, {priorities}, {size:.0e}/{count}: {candidate.label} {cost:.1f} us")


def one_batch(candidate: Candidate, count: int, fresh: np.ndarray, clock: Clock) -> float:
    """Seconds to select `count` ids and give them fresh priorities."""
    began = clock()
    chosen = candidate.select(count)
    ids = chosen[0] if isinstance(chosen, tuple) else chosen
    candidate.update(ids, fresh[: len(ids)])
    return clock() - began


def ratios(times: Times, group: str, priorities: str, ours: str, peer: str) -> list[float]:
    """How many times as long as ours a peer takes, for each column from 1e5 prompts on."""
    columns = {key[3:] for key in times if key[:3] == (group, priorities, peer) and key[3] >= 10**5}
    return [
        times[group, priorities, peer, *column] / times[group, priorities, ours, *column]
        for column in sorted(columns)
    ]


GOALS = [
    ("proportional", "curro SumTree", "cpprb", 7.0),
    ("proportional", "curro SumTree", "torchrl sum + min trees", 2.0),
    ("top-k", "curro MaxHeap", "the paper's heap", 18.0),
    ("top-k", "curro MaxHeap", "heapq", 5.0),
]


def goal_table(times: Times) -> str:
    """A line for each pair, with the least, the median and the most for each kind of priorities."""
    lines = [
        f"| ours | against | goal | {' | '.join(PRIORITIES)} | met |",
        f"|---|---|--:|{'--:|' * len(PRIORITIES)}---|",
    ]
    for group, ours, peer, goal in GOALS:
        measured = [ratios(times, group, priorities, ours, peer) for priorities in PRIORITIES]
        met = "not measured" if not all(measured) else "yes" if min(map(min, measured)) >= goal else "no"
        lines.append(f"| {ours} | {peer} | at least {goal:g}x | {spreads(measured)} | {met} |")
    for group, ours in dict.fromkeys((goal[0], goal[1]) for goal in GOALS):
        measured = [
            [1 / ratio for ratio in ratios(times, group, priorities, ours, Floor.label)]
            for priorities in PRIORITIES
        ]
        met = "not measured" if not all(measured) else "yes" if max(map(max, measured)) <= 12 else "no"
        lines.append(f"| {ours} | the floor | at most 12x | {spreads(measured)} | {met} |")
    return "\n".join(lines)


def spreads(measured: list[list[float]]) -> str:
    return " | ".join(
        ", ".join(f"{x:.1f}" for x in dict.fromkeys((min(of_kind), statistics.median(of_kind), max(of_kind))))
        if of_kind
        else "-"
        for of_kind in measured
    )


def cost_table(times: Times, group: str, priorities: str) -> str:
    columns = sorted({key[3:] for key in times if key[:2] == (group, priorities)})
    lines = [
        "| microseconds | "
        + " | ".join(f"{size:.0e}/{count}".replace("+0", "") for size, count in columns)
        + " |",
        "|---|" + "--:|" * len(columns),
    ]
    for kind in GROUPS[group]:
        row = [times.get((group, priorities, kind.label, *column)) for column in columns]
        if any(row):
            name = f"**{kind.label}**" if kind.ours else kind.label
            cells = ("-" if x is None else f"{x:.1f}" if x < 100 else f"{x:,.0f}" for x in row)
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def goals(times: Times) -> str:
    """Where and when it was measured, and the goals."""
    absent = {kind.label: reason for kinds in GROUPS.values() for kind in kinds if (reason := missing(kind))}
    parts = [
        f"Measured {date.today().isoformat()} on one core of {processor()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        *(f"Not measured: {label} ({reason})." for label, reason in absent.items()),
        "Ratios over every column from 1e5 prompts on: the least, the median and the most.",
        goal_table(times),
    ]
    return "\n\n".join(parts) + "\n"


def costs(times: Times) -> str:
    """Microseconds of every candidate, a table for each kind of index and of priorities."""
    parts = []
    for group in GROUPS:
        for priorities in PRIORITIES:
            if any(key[:2] == (group, priorities) for key in times):
                title = f"## {group.capitalize()}, {priorities} priorities"
                parts.append(f"{title}\n\n{cost_table(times, group, priorities)}")
    return "\n\n".join(parts) + "\n"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor() or platform.machine()


def picture(times: Times, count: int, path: Path) -> None:
    """Cost against the number of prompts, a panel for each group, a line for each candidate."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "curro", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, axes = plt.subplots(1, len(GROUPS), figsize=(13, 4.2), sharey=True, layout="constrained")
    for axis, (group, kinds) in zip(axes, GROUPS.items(), strict=True):
        others = iter(["#d1495b", "#edae49", "#66a182", "#8d6a9f"])
        own = iter(["#00798c", "#2e4057"])
        for kind in kinds:
            points = sorted(
                (key[3], cost)
                for key, cost in times.items()
                if key[:3] == (group, "uniform", kind.label) and key[4] == count
            )
            if not points:
                continue
            style = (
                {"color": "#999999", "ls": ":"}
                if kind is Floor
                else ({"color": next(own), "lw": 2.4} if kind.ours else {"color": next(others), "lw": 1.2})
            )
            axis.loglog(*zip(*points, strict=True), marker="o", ms=3.5, label=kind.label, **style)
        axis.set(title=group, xlabel="prompts")
        axis.grid(True, which="major", alpha=0.25)
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    axes[0].set_ylabel(f"microseconds to select and update {count}")
    axes[0].set_ylim(top=axes[0].get_ylim()[1] * 40)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def write_results(times: Times) -> None:
    picture(times, 512, PICTURES / "index-cost.svg")
    image = "![Cost of a batch against the number of prompts](../../docs/img/index-cost.svg)"
    text = f"{image}\n\n{goals(times)}\nBelow, the columns are prompts/C.\n\n{costs(times)}"
    write_page("index", "What the indexes cost", "python -m benchmarks.port.indexes", text)


def peak() -> float:
    """The most memory this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def use_many(size: int, count: int = 4096) -> None:
    """Build, use, save and restore the prompt table and both indexes at a hundred million prompts."""
    rng = np.random.default_rng(0)
    table = table_bytes(size, count)
    for kind in (MaxHeap, SumTree):
        held = resident()
        priorities = rng.uniform(0.01, 0.99, size)
        began = time.perf_counter()
        index = kind.from_array(priorities, seed=0) if kind is MaxHeap else kind.from_array(priorities)
        built = time.perf_counter() - began
        del priorities
        bytes_each = (resident() - held) / size
        spent = []
        for _ in range(30):
            uniforms, fresh = rng.random(count), rng.uniform(0.01, 0.99, count)
            began = time.perf_counter()
            select_and_update(index, uniforms, fresh)
            spent.append(time.perf_counter() - began)
        began = time.perf_counter()
        state = index.state_dict()
        saved = time.perf_counter() - began
        uniforms, fresh = rng.random(count), rng.uniform(0.01, 0.99, count)
        expected = [select_and_update(index, uniforms, fresh).tolist() for _ in range(5)]
        del index
        restored = kind(size, seed=1) if kind is MaxHeap else kind(size)
        began = time.perf_counter()
        restored.load_state_dict(state)
        loaded = time.perf_counter() - began
        same = [select_and_update(restored, uniforms, fresh).tolist() for _ in range(5)] == expected
        del restored, state
        typer.echo(
            f"{kind.__name__}, {size:.0e} prompts: built in {built:.1f} s, {bytes_each:.1f} bytes a prompt "
            f"({bytes_each + table:.1f} with the prompt table); select and update {count}: "
            f"median {statistics.median(spent) * 1e3:.2f} ms, slowest {max(spent) * 1e3:.2f} ms; "
            f"saved in {saved:.1f} s, loaded in {loaded:.1f} s, same draws after: {same}; "
            f"peak memory so far {peak():.1f} GB"
        )
        if not same:
            raise typer.Exit(1)


def table_bytes(size: int, count: int) -> float:
    """Bytes a prompt that the prompt table takes once all of it was written, saved and restored."""
    held = resident()
    table = PromptTable(size)
    for column in table.columns.values():
        column[:] = 1
    used = (resident() - held) / size
    rows = np.random.default_rng(1).integers(size, size=count)
    table["visits"][rows] += 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        began = time.perf_counter()
        checkpoint.save_state(path, {"table": table.state_dict()})
        saved = time.perf_counter() - began
        state = checkpoint.load_state(path)["table"]
        restored = PromptTable(size)
        restored.load_state_dict(state)
        written = path.stat().st_size / 1e9
    same = all(np.array_equal(column, restored[name]) for name, column in table.columns.items())
    typer.echo(
        f"PromptTable, {size:.0e} prompts: {used:.1f} bytes a prompt; written to a checkpoint of "
        f"{written:.1f} GB in {saved:.1f} s, restored the same: {same}; peak memory so far {peak():.1f} GB"
    )
    if not same:
        raise typer.Exit(1)
    return used


def select_and_update(index: MaxHeap | SumTree, uniforms: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    if isinstance(index, MaxHeap):
        ids = index.pop(fresh.size)
        index.push(ids, fresh)
    else:
        ids, _ = index.sample(uniforms)
        index.update(ids, fresh)
    return ids


def resident() -> int:
    """Bytes of memory held now; 0 where the system does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else 0


def main(
    quick: Annotated[bool, typer.Option(help="small sizes, few repetitions, nothing written")] = False,
    big: Annotated[bool, typer.Option(help="only the case of --big-prompts prompts")] = False,
    big_prompts: Annotated[int, typer.Option(help="how many prompts --big takes")] = 10**8,
    sizes: Annotated[str, typer.Option(help="numbers of prompts")] = "1e3,1e5,1e6,1e7",
    turns: Annotated[int, typer.Option(help="how often each candidate has its turn")] = 7,
    patience: Annotated[float, typer.Option(help="seconds after which a slow one has had its turns")] = 1.5,
    busy: Annotated[bool, typer.Option(help="count processor time: for a machine with other work")] = False,
    raw: Annotated[Path | None, typer.Option(help="also write every median to this JSON file")] = None,
) -> None:
    if big:
        use_many(big_prompts)
        return
    if quick:
        sizes, turns = "1e3,1e5", 3
    times: Times = {}
    clock = time.thread_time if busy else time.perf_counter
    for size in sizes.split(","):
        for group in GROUPS:
            for priorities in PRIORITIES:
                measure(
                    group,
                    priorities,
                    int(float(size)),
                    BATCHES[: 2 if quick else 3],
                    turns,
                    patience,
                    times,
                    clock,
                )
    typer.echo(f"\n{goals(times)}\n{costs(times)}")
    if raw:
        raw.write_text(json.dumps([[*key, cost] for key, cost in times.items()]))
    if not quick:
        write_results(times)


if __name__ == "__main__":
    typer.run(main)
