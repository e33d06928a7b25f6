"""A reward by its name."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from curro.core.errors import ConfigError
from curro.core.groups import verifying_parts
from curro.core.loading import PROVIDERS, load_object, provided_code, provider
from curro.core.registry import REWARDS, construct, parse_options
from curro.core.text import did_you_mean
from curro.data.prompt_set import PromptSet
from curro.data.raw import Row
from curro.reward import reasoning_gym, user
from curro.reward.reward import Reward, Score
from curro.reward.workers.pool import WorkerLimits


def _has_answer(row: Row) -> bool:
    return row["answer"] is not None


_NEEDS: dict[str, tuple[Callable[[Iterable[object]], bool], Callable[[Row], object], str]] = {
    **dict.fromkeys(
        ("math", "exact", "function-calls", "cosine"),
        (
            any,
            _has_answer,
            "compares with an answer and no row has one: name its column with answer_column",
        ),
    ),
    "reasoning-gym": (
        all,
        reasoning_gym.source_data_set,
        "needs rows with metadata that name their source_dataset, as reasoning-gym writes them",
    ),
    "code": (
        any,
        lambda row: row.get("tests") is not None or _has_answer(row),
        "needs a column `tests`, or tests as the answers",
    ),
}
"""What any row, or all of them, must have for a built-in reward, and what is said where it is lacking."""


def check_columns(name: str, prompts: PromptSet) -> None:
    """Raises ConfigError where the prompts lack what the reward `name` needs."""
    if name not in _NEEDS:
        return
    rows_have, has, need = _NEEDS[name]
    if rows_have(map(has, prompts)):
        return
    others = [column for column in prompts[0] if column not in ("prompt", "answer", "key")]
    raise ConfigError(f"the reward {name!r} {need}; the other columns are {', '.join(others) or 'none'}")


class WeightedReward(Reward):
    """The sum of several rewards, each times its weight.

    A completion is scored where every part gives a number; elsewhere no part has one.

    Args:
        name: of the sum.
        parts: a weight and a reward each; the reward's name is the part's.
    """

    def __init__(self, name: str, parts: Sequence[tuple[float, Reward]]) -> None:
        super().__init__(name, self.summed)
        names = [part.name for _, part in parts]
        if len(set(names)) < len(names):
            raise ConfigError(f"reward {name!r}: two parts have the same name: name each part once")
        object.__setattr__(self, "parts", tuple(parts))

    parts: tuple[tuple[float, Reward], ...]

    @property
    def weights(self) -> Mapping[str, float]:
        return {part.name: weight for weight, part in self.parts}

    @property
    def notes(self) -> list[str]:
        return [note for _, part in self.parts for note in part.notes]

    def named(self, completions: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Score]]:
        return _where_all({part.name: part.named(completions, rows)[part.name] for _, part in self.parts})

    async def named_async(self, completions: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Score]]:
        every = await asyncio.gather(*(part.named_async(completions, rows) for _, part in self.parts))
        return _where_all({name: scores for named in every for name, scores in named.items()})


def outcome_reward(reward: Reward) -> Reward:
    """The parts of a sum that verify the answer, whose rate is the pass rate; else the reward itself.

    They are added without their weights, as in the signal of a run (`curro.core.groups.outcome_parts`).
    """
    if not isinstance(reward, WeightedReward):
        return reward
    names = verifying_parts(reward.weights)
    kept = [part for _, part in reward.parts if part.name in names]
    if len(kept) == 1:
        return kept[0]
    if len(kept) in (0, len(reward.parts)):
        return reward
    return WeightedReward("+".join(names), [(1.0, part) for part in kept])


def _where_all(named: dict[str, list[Score]]) -> dict[str, list[Score]]:
    scored = [all(score is not None for score in scores) for scores in zip(*named.values(), strict=True)]
    return {
        name: [score if ok else None for score, ok in zip(scores, scored, strict=True)]
        for name, scores in named.items()
    }


_NAMES = [*REWARDS, "lab", "auto"]
_TERM = re.compile(r"(?:(?P<weight>-?[0-9.]+(?:e-?[0-9]+)?)\s*\*\s*)?(?P<spec>.*)", re.DOTALL)


def resolve_reward(
    spec: str = "auto",
    prompts: PromptSet | None = None,
    *,
    limits: WorkerLimits | None = None,
    sandbox: str = "auto",
) -> Reward:
    """The reward that `spec` names.

    Args:
        spec: `math`, `exact`, `format`, `overlong:limit=4096,buffer=512`, or another of
            `curro.reward.resolve` with its options; `lab` (for prompts of the lab) or `lab:FAMILY`; a
            function of your own as `module:function`, with options that it is called with besides
            (`module:function:option=value`); or `auto`: the lab's prompts get `lab`, those with
            reasoning-gym's metadata `reasoning-gym`, all others `math`. Several with a plus between are a
            weighted sum: `math+0.2*format`.
        prompts: what will be scored; checked for the columns that the reward needs.
        limits: of the worker processes in which a function of your own runs; None runs it in this process.
        sandbox: how the reward `code` confines programs, unless its own option says otherwise; as
            `curro.reward.sandbox.find_confinement` takes it.

    Raises:
        ConfigError: no such reward, option, module, function or family, or the prompts lack what it needs.
    """
    if not _is_sum(spec):
        return _single(spec, prompts, limits, sandbox)
    return WeightedReward(
        spec, [(weight, _part(_single(term, prompts, limits, sandbox))) for weight, term in _parse(spec)]
    )


def part_names(spec: str) -> list[str]:
    """The names of a reward's parts, as `Reward.weights` has them; nothing that it names is imported."""
    if not _is_sum(spec):
        return [spec]
    return [name if (name := term.partition(":")[0]) in REWARDS else term for _, term in _parse(spec)]


def named_code(spec: str) -> tuple[list[str], bool]:
    """The functions of the user's own that a reward consists of, as `module:function`.

    Returns:
        them, and whether another part of it is `code:sandbox=none`, which runs a model's programs unconfined.
    """
    functions, unconfined = [], False
    for _, part in _parse(spec):
        name, colon, rest = part.partition(":")
        if name in REWARDS:
            options = parse_options(rest, spec)
            unconfined |= name == "code" and None in (*options.pop("", []), *options.values())
        elif name in PROVIDERS:
            functions += provided_code(part)
        elif colon:
            functions.append(f"{name}:{rest.partition(':')[0]}")
    return functions, unconfined


def _parse(spec: str) -> list[tuple[float, str]]:
    """The weight of each part of a sum, and what it names; a plain name is the only part, with weight 1.

    Raises:
        ConfigError: an empty part, or a weight that is not a number.
    """
    if not _is_sum(spec):
        return [(1.0, spec)]
    terms = []
    for text in spec.split("+"):
        term = _TERM.fullmatch(text.strip())
        if term is None or not term["spec"]:
            raise ConfigError(
                f"the reward {spec!r} has an empty part: write NAME or WEIGHT*NAME between plusses"
            )
        try:
            weight = float(term["weight"] or 1.0)
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            raise ConfigError(f"{term['weight']!r} in the reward {spec!r} is not a weight: write a number")
        terms.append((weight, term["spec"].strip()))
    return terms


def _is_sum(spec: str) -> bool:
    return "+" in spec or "*" in spec


def _part(reward: Reward) -> Reward:
    """A reward as a part of a sum, where one of curro's is called without its options."""
    name = reward.name.partition(":")[0]
    return Reward(name, reward.verify, reward.verify_async) if name in REWARDS else reward


def _single(spec: str, prompts: PromptSet | None, limits: WorkerLimits | None, sandbox: str) -> Reward:
    if spec == "auto":
        spec = _automatic(prompts)
    if spec == "lab" and prompts is not None and prompts.source.startswith("lab:"):
        spec = prompts.source.partition("/")[0]
    provided = provider(spec)
    if provided is not None:
        return Reward(spec, provided[0].verify(provided[1]))
    if spec == "lab":
        raise ConfigError(
            "the reward 'lab' scores the lab's prompts: use data lab:FAMILY, or reward lab:FAMILY"
        )
    name, _, arguments = spec.partition(":")
    if name in REWARDS:
        if prompts is not None:
            check_columns(name, prompts)
        options = parse_options(arguments, spec)
        if name == "code":
            options.setdefault("sandbox", sandbox)
        found = load_object(REWARDS[name], "reward")
        make = found if isinstance(found, type) else lambda: found
        verify = construct(f"reward {name!r}", make, options, options.pop("", []))
        return Reward(spec, verify, getattr(verify, "verify_async", None))
    if ":" in spec:
        function, _, more = arguments.partition(":")
        return Reward(spec, user.load(f"{name}:{function}", parse_options(more, spec), limits))
    if spec.endswith(".py"):
        raise ConfigError(f"the reward {spec!r} names a file and no function: write {spec}:FUNCTION")
    raise ConfigError(
        f"no reward is called {spec!r}{did_you_mean(spec, _NAMES)}; there are: {', '.join(_NAMES)}; "
        "your own is module:function"
    )


def _automatic(prompts: PromptSet | None) -> str:
    if prompts is not None and provider(prompts.source) is not None:
        is_lab = prompts.source.startswith("lab:")
        return prompts.source.partition("/")[0] if is_lab else prompts.source
    if prompts is not None and reasoning_gym.source_data_set(prompts[0]) is not None:
        return "reasoning-gym"
    return "math"
