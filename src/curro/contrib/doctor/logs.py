"""Diagnose a log of group-based RL that may never have heard of curro: where its rollouts went.

`read_log` reads what trainers and loggers write, `examine` measures it, and `replayed` asks the port what
other methods would have found in the very same groups. Texts are only compared.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.intervals import wilson
from curro.core.text import printable, readable

PROMPT = ("prompt_id", "prompt", "input", "uid", "key", "question")
REWARD = ("reward", "rewards", "score")
STEP = ("step", "global_step", "train/global_step", "_step", "Step")
TOKENS = ("tokens", "completion_tokens", "response_length")
TEXT = ("completion", "output", "response", "text")
GROUP, ADVANTAGE = "group_id", "advantage"
"""What trainers and loggers call the columns of rollouts; TRL names each reward's after its function."""

OTHERS = {
    *PROMPT,
    *STEP,
    *TOKENS,
    *TEXT,
    GROUP,
    ADVANTAGE,
    "_timestamp",
    "_runtime",
    "timestamp",
    "epoch",
    "id",
}

TOLERANCE = 1e-9
"""Rewards of a group that differ by no more are equal."""


@dataclass
class Rollouts:
    """The rollouts of a log in order, of shape (R,), in F groups; what a log does not have is empty.

    Attributes:
        group: int64 (R,), the number of each rollout's group.
        prompt, step: int64 (F,), the number of each group's prompt, and its training step or place.
        prompts: the prompts' texts or keys by number.
        reward: float64 (R,), the sum of the parts; NaN if it is missing.
        parts: the parts of the reward by name, if there are several.
        tokens, advantage: float64 (R,).
        text, is_empty: int64 and bool (R,): equal for equal completions, and whether they are blank.
        mixed: the number of groups that the log made of several prompts.
        outcome: the part by which groups are judged: the first whose values are 0 and 1; empty for the sum.
    """

    group: np.ndarray
    prompt: np.ndarray
    step: np.ndarray
    prompts: list[str]
    reward: np.ndarray
    parts: dict[str, np.ndarray] = field(default_factory=dict)
    tokens: np.ndarray = field(default_factory=lambda: np.empty(0))
    advantage: np.ndarray = field(default_factory=lambda: np.empty(0))
    text: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    is_empty: np.ndarray = field(default_factory=lambda: np.empty(0, np.bool_))
    mixed: int = 0
    outcome: str = ""

    @property
    def judged(self) -> np.ndarray:
        """The values by which groups are judged, float64 (R,)."""
        return self.parts[self.outcome] if self.outcome else self.reward

    def extremes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the lowest and the highest of these values (R,) in each group (F,); NaN for none."""
        low, high = np.full(len(self.prompt), np.nan), np.full(len(self.prompt), np.nan)
        np.fmin.at(low, self.group, values)
        np.fmax.at(high, self.group, values)
        return low, high

    def has_signal(self, values: np.ndarray) -> np.ndarray:
        """Whether these values (R,) differ within each group, bool (F,)."""
        low, high = self.extremes(values)
        return high - low > TOLERANCE

    @property
    def reward_range(self) -> tuple[float, float]:
        """0 and 1 where all rewards lie between them, and else the lowest and the highest reward."""
        low, high = float(np.nanmin(self.judged)), float(np.nanmax(self.judged))
        return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high if high > low else low + 1.0)


FILES = (
    "completions_*.parquet", "completions/completions_*.parquet", "completions_*.table.json", "[0-9]*.jsonl",
    "trainer_state.json", "checkpoint-*/trainer_state.json",
)  # fmt: skip
"""What is read of a folder, by TRL, wandb and verl: all files of the first pattern, or the last state."""

Curves = dict[str, np.ndarray]
"""The metrics of a log by name, without `train/`: their known values in the order of the steps."""


@dataclass(frozen=True)
class Finding:
    """A sentence on the log, and what to do about it; lower `rank` comes first."""

    words: str
    advice: str = ""
    rank: int = 9


# Reading


def read_log(path: Path) -> Rollouts | Curves:
    """Read a log, whatever wrote it.

    Args:
        path: a file, or a folder: TRL's `output_dir` or its `completions`, verl's `rollout_data_dir`.

    Raises:
        ConfigError: there is no log that can be read.
    """
    with _naming(path):
        return _log(path)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Refuse what cannot be read, by its name."""
    try:
        yield
    except ConfigError:
        raise
    except (pa.ArrowException, OSError, ArithmeticError, LookupError, ValueError, RecursionError, TypeError,
            AttributeError) as error:  # fmt: skip
        words = printable(str(error))[:200]
        raise ConfigError(
            f"{path} cannot be read as a log, as it is damaged or has columns of other types: {words}"
        ) from error


def _log(path: Path) -> Rollouts | Curves:
    tables: list[pa.Table] = []
    for file in _files(path):
        with _naming(file):
            table = _table(file)
        names = [name for name in table.column_names if name not in STEP]
        # TRL logs a batch again until the next one is generated
        is_new = (
            not tables or ADVANTAGE not in names or not table.select(names).equals(tables[-1].select(names))
        )
        tables += [table] if is_new else []
    table = pa.concat_tables(tables, promote_options="permissive")
    if not table.num_rows:
        raise ConfigError(f"{path} has neither rollouts nor metrics")
    if not (_first(table, PROMPT) and _reward_columns(table)):
        return _curves(table, path)
    log = _rollouts(table)
    if np.isnan(log.reward).all():
        raise ConfigError(f"{path} has no reward that is a number")
    if np.bincount(log.group).max() < 2:
        raise ConfigError(
            f"{path} has no group of two rollouts, that is of one prompt in one step: a data set is checked "
            "with --reward, a run of curro's with curro report"
        )
    return log


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise ConfigError(
            f"there is no file or folder {str(path)!r}: name a log, or with --reward a data set"
        )
    if not path.is_dir():
        return [path]
    for pattern in FILES:
        files = sorted(
            path.glob(pattern), key=lambda file: [int(n) for n in re.findall(r"\d{1,15}", str(file))]
        )
        if files:
            return files[-1:] if pattern.endswith("state.json") else files
    if (path / "metrics.jsonl").is_file() or (path / "curro").is_dir():
        raise ConfigError(f"{path} is a run folder of curro: see curro report {path}")
    raise ConfigError(
        f"{path} has no completions_*.parquet (TRL's log_completions), N.jsonl (verl's rollout_data_dir) or "
        "trainer_state.json: name the file to read"
    )


def _table(file: Path) -> pa.Table:
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    if file.suffix not in (".parquet", ".csv", ".jsonl", ".json"):
        raise ConfigError(f"{file} is no log: name a .parquet, .jsonl, .json or .csv file")
    if not file.stat().st_size:
        raise ConfigError(f"{file} is empty")
    if file.suffix == ".parquet":
        table = pyarrow.parquet.ParquetFile(file, pre_buffer=False).read(use_threads=False)
    elif file.suffix == ".csv":
        table = pyarrow.csv.read_csv(file)
    elif file.suffix == ".jsonl":
        table = pyarrow.json.read_json(file, read_options=pyarrow.json.ReadOptions(block_size=1 << 26))
    else:
        table = _table_of_json(json.loads(file.read_bytes()))
    try:
        table.validate(full=True)  # or texts that are no UTF-8 would be found when they are asked for
    except pa.ArrowInvalid:
        if file.suffix != ".jsonl":
            raise
        # Arrow makes an impossible column of lists of which the first begins with null
        table = _table_of_json([json.loads(line) for line in file.read_bytes().splitlines() if line.strip()])
    return table


def _table_of_json(content: Any) -> pa.Table:
    """Read a trainer's state, a table of wandb, a metric of trackio, or a list of rows."""
    if isinstance(content, dict) and "columns" in content:
        content = [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]
    elif isinstance(content, dict) and "values" in content:
        content = [{"step": row["step"], content["metric"]: row["value"]} for row in content["values"]]
    elif isinstance(content, dict):
        content = content.get("log_history")
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise ValueError("neither a list of rows nor an object with log_history, columns or values")
    names = dict.fromkeys(name for row in content for name in row)
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in content])


def _first(table: pa.Table, names: Sequence[str]) -> str:
    return next((name for name in names if name in table.column_names), "")


def _is_numeric(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    )


def _reward_columns(table: pa.Table) -> list[str]:
    """Name the reward, or else its parts: every column of numbers that is nothing else."""
    whole = _first(table, REWARD)
    parts = [name for name in table.column_names if name not in OTHERS and _is_numeric(table[name].type)]
    return [whole] if whole else parts


def _numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """The numbers of a column, float64; NaN for what is missing, infinite, or beyond what sums can hold."""
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.abs(values) < 1e100, values, np.nan)


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Number the values of a column; a conversation counts by its last message."""
    values = pa.concat_arrays(column.chunks)
    if pa.types.is_list(values.type):
        size = pc.fill_null(pc.list_value_length(values), 0)
        place = pc.subtract(pc.cumulative_sum(size), 1)
        last = values.flatten().take(pc.if_else(pc.equal(size, 0), None, place))
        values = last.field("content") if pa.types.is_struct(last.type) else last
    coded = pc.dictionary_encode(values.cast(pa.string()), null_encoding="encode")
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, [text or "" for text in coded.dictionary.to_pylist()]


def _rollouts(table: pa.Table) -> Rollouts:
    prompt_L, prompts = _codes(table[_first(table, PROMPT)])
    names, tokens, text, step = _reward_columns(table), *(_first(table, n) for n in (TOKENS, TEXT, STEP))
    step_L = _numbers(table[step]) if step else np.arange(table.num_rows)
    step_L = np.clip(np.nan_to_num(step_L), -(2**53), 2**53).astype(np.int64)
    if pa.types.is_list(table[names[0]].type):  # a line a group
        rewards = table[names[0]].combine_chunks()
        sizes = pc.fill_null(pc.list_value_length(rewards), 0).to_numpy()
        group, log = np.repeat(np.arange(len(sizes)), sizes), None
        log = Rollouts(group, prompt_L, step_L, prompts, _numbers(rewards.flatten()))
        if tokens and _is_numeric(table[tokens].type):  # a sum over the group
            log.tokens = np.repeat(_numbers(table[tokens]) / np.maximum(sizes, 1), sizes)
        return log
    parts = {name: _numbers(table[name]) for name in names}
    all_RK = np.column_stack(list(parts.values()))
    reward = np.where(np.isnan(all_RK).all(axis=1), np.nan, np.nansum(all_RK, axis=1))
    group, mixed = _groups(table, prompt_L, step_L if step else np.zeros_like(prompt_L))
    first = np.unique(group, return_index=True)[1]
    log = Rollouts(group, prompt_L[first], step_L[first], prompts, reward, mixed=mixed)
    if len(parts) > 1:
        binary = [name for name, values in parts.items() if {*np.unique(values[~np.isnan(values)])} == {0, 1}]
        log.parts, log.outcome = parts, (binary or [""])[0]
    log.tokens = _numbers(table[tokens]) if tokens else log.tokens
    log.advantage = _numbers(table[ADVANTAGE]) if ADVANTAGE in table.column_names else log.advantage
    if text:
        log.text, texts = _codes(table[text])
        log.is_empty = np.array([not each.strip() for each in texts], np.bool_)[log.text]
    return log


def _groups(table: pa.Table, prompt_L: np.ndarray, step_L: np.ndarray) -> tuple[np.ndarray, int]:
    """Number the group of each line, and count the groups that mix several prompts.

    A group is what the log names, or else the lines of one prompt in one step, because trainers reorder a
    batch. A prompt with n times as many lines in a step as most was drawn n times.
    """
    if GROUP in table.column_names:
        group, names = _codes(table[GROUP])
        return group, len(np.unique(np.column_stack([group, prompt_L]), axis=0)) - len(names)
    keys = np.unique(np.column_stack([step_L, prompt_L]), axis=0, return_inverse=True)[1].ravel()
    sizes = np.bincount(keys)
    usual = int(np.bincount(sizes).argmax())
    part = np.where(sizes[keys] % usual == 0, _places(keys) // usual, 0)
    _, first, inverse = np.unique(keys * len(keys) + part, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.ravel()], 0


def _places(group: np.ndarray) -> np.ndarray:
    """Count the lines of the same group before each line."""
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    places = np.empty(len(group), np.int64)
    places[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return places


def _curves(table: pa.Table, path: Path) -> Curves:
    curves = {}
    for name in table.column_names:
        metric = name.rpartition(" - ")[2].removeprefix("train/")  # wandb: "run - train/reward"
        if _is_numeric(table[name].type) and not metric.endswith(("__MIN", "__MAX")):
            values = _numbers(table[name])
            curves[metric] = values[~np.isnan(values)]
    curves = {name: values for name, values in curves.items() if len(values)}
    if not {"frac_reward_zero_std", "reward", "critic/score/mean"} & curves.keys():
        raise ConfigError(
            f"{path} has neither rollouts (a prompt and a reward a line) nor a trainer's metrics (reward, "
            f"frac_reward_zero_std): its columns are {', '.join(map(printable, table.column_names[:12]))}; "
            "a data set is checked with --reward"
        )
    return curves


# Examining


def examine(log: Rollouts | Curves) -> list[Finding]:
    """Measure a log; findings in the order in which they are printed."""
    if isinstance(log, Rollouts):
        return [*_waste(log), *_returns(log), *_suspicious(log)]
    return list(_examine_curves(log))


def next_steps(findings: Sequence[Finding]) -> list[str]:
    """Name at most three things to do, the most urgent first."""
    urgent = sorted((finding for finding in findings if finding.advice), key=lambda finding: finding.rank)
    return [finding.advice for finding in urgent[:3]] or ["Nothing in this log calls for a change."]


def _waste(log: Rollouts) -> Iterator[Finding]:
    (low, high), (least, most) = log.extremes(log.judged), log.reward_range
    if log.outcome:
        yield Finding(
            f"Groups are judged by the reward {readable(log.outcome, 60)}, whose values are 0 and 1."
        )
    flat, scored = high - low <= TOLERANCE, int(np.count_nonzero(~np.isnan(low)))
    right, wrong = flat & (low >= most - TOLERANCE), flat & (high <= least + TOLERANCE)
    shares = [
        np.count_nonzero(rows) / max(scored, 1) for rows in (flat, wrong, right, flat & ~right & ~wrong)
    ]
    start, end = wilson(shares[0], scored)
    hard = "Add easier prompts, or choose prompts by what is known of them: most waste is on those too hard."
    easy = "Leave solved prompts out for a while, or add harder ones: most waste is on them."
    advice = "" if shares[0] < 0.3 else hard if shares[1] > shares[2] else easy
    between = f", {shares[3]:.1%} equal in between" if shares[3] else ""
    words = f"{shares[0]:.1%} of {scored:,} groups have no signal ({start:.1%} to {end:.1%})"
    yield Finding(f"{words}: {shares[1]:.1%} are all wrong, {shares[2]:.1%} all right{between}.", advice, 3)
    in_flat = flat[log.group]
    cost = f"They took {np.count_nonzero(in_flat):,} of {len(in_flat):,} rollouts"
    if len(log.tokens):
        cost += f" and {np.nansum(log.tokens[in_flat]):,.0f} of {np.nansum(log.tokens):,.0f} tokens"
    yield Finding(f"{cost}.")
    if missing := np.isnan(log.judged).mean():
        yield Finding(
            f"{missing:.1%} of the rollouts have no reward.", "Find out why rewards are missing.", 2
        )


def _returns(log: Rollouts) -> Iterator[Finding]:
    """Whether prompts that were flat come back flat."""
    order = np.lexsort([np.arange(len(log.prompt)), log.step, log.prompt])
    flat, prompt = ~log.has_signal(log.judged)[order], log.prompt[order]
    again = prompt[1:] == prompt[:-1]
    before, after = flat[:-1][again], flat[1:][again]
    if not (before.any() and not before.all()):
        yield Finding("No prompt came back often enough to tell whether flat prompts come back flat.")
        return
    stay, fall = float(after[before].mean()), float(after[~before].mean())
    yield Finding(
        f"Prompts that come back are flat in {stay:.0%} of {before.sum():,} visits after a flat one, and in "
        f"{fall:.0%} of {(~before).sum():,} after one with a signal.",
        "Visit prompts less often while they are flat (prioritized-replay): their last group tells the next."
        if stay > fall + 0.1 else "", 4,
    )  # fmt: skip


def _suspicious(log: Rollouts) -> Iterator[Finding]:
    """Rewards, groups and completions that look wrong."""
    varies = log.has_signal(log.reward).mean()
    for name, values in log.parts.items():
        shown, own = readable(name, 60), log.has_signal(values).mean()
        if np.nanmax(values) - np.nanmin(values) <= TOLERANCE:
            words = f"The reward {shown} is {np.nanmin(values):g} for every rollout."
            yield Finding(words, f"Mend or drop the reward {shown}: it teaches nothing.", 1)
        elif name == log.outcome and varies > 2 * own:
            words = f"The sum of the rewards varies in {varies:.0%} of the groups, {shown} in {own:.0%}."
            advice = f"Rank, gate and measure by {shown}: most of the update follows the other rewards."
            yield Finding(words, advice, 1)
    sizes = np.maximum(np.bincount(log.group), 1)
    mean = (np.bincount(log.group, np.nan_to_num(log.reward)) / sizes)[log.group]
    if len(log.advantage) and not log.parts:  # the weights of parts are not in a log
        signs = np.sign(np.where(np.abs(log.reward - mean) > TOLERANCE, log.reward - mean, 0))
        wrong = (signs * np.sign(log.advantage) < 0).mean()
    else:
        wrong = 0.0
    if log.mixed or wrong > 0.05:
        words = (
            f"{log.mixed:,} groups"
            if log.mixed
            else f"Groups (by the advantages of {wrong:.0%} of the rollouts)"
        )
        yield Finding(
            f"{words} mix several prompts.", "Mend the groups: advantages across prompts are noise.", 0
        )
    if len(log.text):
        kinds = np.unique(np.column_stack([log.group, log.text]), axis=0)[:, 0]
        same = ((np.bincount(kinds) == 1) & (np.bincount(log.group) > 1)).mean()
        if same > 0.1:
            words = f"{same:.0%} of the groups have the same completion in every rollout."
            yield Finding(words, "Raise the temperature, or see whether all rollouts have one seed.", 1)
        if paid := np.count_nonzero(log.is_empty & (log.judged >= log.reward_range[1] - TOLERANCE)):
            yield Finding(
                f"{paid:,} empty completions have the full reward.", "Mend the reward: it pays silence.", 0
            )


HELD_OUT = re.compile(r"(eval[_/]|val)\S*(reward|acc|pass@1|score)\S*")


def _examine_curves(curves: Curves) -> Iterator[Finding]:
    """Say what metrics alone tell."""
    if (flat := curves.get("frac_reward_zero_std")) is not None:
        share, (_, recent) = float(flat.mean()), _ends(flat)
        words = f"{share:.1%} of the groups have no signal, {recent:.1%} in the last fifth"
        log_them = "Log completions (TRL: log_completions=True): they tell which prompts are flat."
        yield Finding(f"{words} of {len(flat):,} steps.", log_them if share > 0.3 else "", 3)
        yield Finding("Metrics do not tell all right from all wrong, nor one prompt from another.")
        if (tokens := curves.get("num_tokens")) is not None:
            yield Finding(f"They took about {share * tokens.max():,.0f} of {tokens.max():,.0f} tokens.")
    reward = curves.get("reward", curves.get("critic/score/mean", np.zeros(1)))
    if len(reward) > 1:
        yield Finding("The training reward went from {:.3f} to {:.3f}.".format(*_ends(reward)))
    for name, values in curves.items():
        if HELD_OUT.fullmatch(name) and not name.endswith("std"):
            (start, end), noise = _ends(values), float(np.diff(values).std()) if len(values) > 2 else 0.0
            is_hacked = end < start - max(noise, 0.01) and _ends(reward)[1] > _ends(reward)[0]
            words = f"Held-out {readable(name, 60)} went from {start:.3f} to {end:.3f}."
            advice = "Read completions: the reward rises while held-out success falls, as where it is gamed."
            yield Finding(words, advice if is_hacked else "", 0)
    if (cut := curves.get("completions/clipped_ratio", np.zeros(1)).mean()) > 0.25:
        yield Finding(
            f"{cut:.0%} of the completions were cut at the length limit.", "Raise the length limit.", 2
        )


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Average the first and the last fifth."""
    n = max(1, len(values) // 5)
    return float(values[:n].mean()), float(values[-n:].mean())


# Replaying

METHODS = ("prioritized-replay", "frontier")
REPLAYS, GROUPS, WINDOW, DRAW = 5, 768, 96, 32
"""Samples of the log, the groups of each, the groups of a window, and the prompts that are drawn at once."""

STUDENT = 2.776
"""The 97.5% quantile of Student's distribution with `REPLAYS` - 1 degrees of freedom."""


def replayed(log: Rollouts) -> list[Finding]:
    """Say what methods would have found in the groups of the log, beside uniform sampling."""
    sizes = np.bincount(log.group, minlength=len(log.prompt))
    signal, rewards = log.has_signal(log.judged), np.full((len(sizes), sizes.max()), np.nan)
    rewards[log.group, _places(log.group)] = log.judged
    samples = [_sample(log, np.random.default_rng(seed)) for seed in range(REPLAYS)]
    if min(map(len, samples)) < 2 * WINDOW:
        return [Finding("There are too few groups to replay other methods on them.")]
    uniform = [float(signal[groups].mean()) for groups in samples]
    base = float(np.mean(uniform))
    findings = [
        Finding(
            "Replayed on these groups, of which a method chooses half (a log fixes the policy: what other "
            f"choices would have taught it is not in it):\n  uniform {base:.0%} with a signal"
        )
    ]
    least, best = 0.01, ""
    for method in METHODS:
        runs = enumerate(samples)
        with _unsaid():
            shares = [_replay(log, rewards, signal, groups, method, n) for n, groups in runs]
        gains = np.array(shares) - uniform
        gain, half = float(gains.mean()), STUDENT * float(gains.std(ddof=1)) / REPLAYS**0.5
        low, high = base + gain - half, min(base + gain + half, 1.0)
        findings.append(Finding(f"  {method} {base + gain:.0%} (95%: {low:.0%} to {high:.0%})"))
        if gain - half > least:
            least = gain - half
            best = f"Train with {method}: it finds {1 + gain / base:.2f} times as much signal here."
    findings[-1] = Finding(findings[-1].words, best, 2)
    return findings


@contextmanager
def _unsaid() -> Iterator[None]:
    """Silence what a curriculum says of its own run: a replay chooses among few groups and drops the rest."""
    said = logging.getLogger("curro.core.meters")
    level = said.level
    said.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        said.setLevel(level)


def _sample(log: Rollouts, rng: np.random.Generator) -> np.ndarray:
    """Take all groups of random prompts, in the order of the log, so that prompts come back as they did."""
    scored = np.flatnonzero(~np.isnan(log.extremes(log.judged)[0]))
    visits = np.bincount(log.prompt[scored], minlength=len(log.prompts))
    order = rng.permutation(len(visits))
    chosen = order[np.cumsum(visits[order]) <= max(GROUPS, visits.max())]
    groups = scored[np.isin(log.prompt[scored], chosen)]
    return groups[np.argsort(log.step[groups], kind="stable")]


def _replay(
    log: Rollouts, rewards_FG: np.ndarray, signal_F: np.ndarray, groups: np.ndarray, method: str, seed: int
) -> float:
    """Share of groups with a signal among the groups that a method chooses from a sample of the log.

    The sample is cut into windows. In each, the method draws from all prompts until half of the window's
    groups came up; draws outside of the window are dropped (the replay of Li et al. 2011, "Unbiased offline
    evaluation of contextual-bandit algorithms").
    """
    numbers, local = np.unique(log.prompt[groups], return_inverse=True)
    rows = [{"prompt": log.prompts[number], "key": str(number)} for number in numbers.tolist()]
    curriculum = Curriculum(method, rows, reward_range=log.reward_range, seed=seed)
    taken: list[int] = []
    for step, start in enumerate(range(0, len(groups), WINDOW)):
        places = range(start, min(start + WINDOW, len(groups)))
        window = {int(local[place]): int(groups[place]) for place in reversed(places)}
        idle: list[int] = []
        wanted = len(taken) + max(len(window) // 2, 1)
        while len(taken) < wanted and curriculum.free:
            draw = curriculum.select(min(DRAW, curriculum.free), step=step)
            hits = np.array([prompt in window for prompt in draw.prompts.tolist()])
            hits[np.flatnonzero(hits)[wanted - len(taken) :]] = False
            chosen = [window.pop(prompt) for prompt in draw.prompts[hits].tolist()]
            if chosen:
                curriculum.observe(draw.tickets[hits], rewards_FG[chosen])
            taken, idle = taken + chosen, idle + draw.tickets[~hits].tolist()
        curriculum.drop(np.array(idle, np.int64))
    return float(signal_F[taken].mean())
