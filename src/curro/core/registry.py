"""Methods by name: a built-in is a short name for a `module:Class`, and a user's own class needs no more."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from types import NoneType
from typing import Any

from curro.core.errors import ConfigError
from curro.core.loading import load_object
from curro.core.text import did_you_mean

BUILTIN: dict[str, dict[str, str]] = {
    "selection": {
        "uniform": "curro.methods.selection.uniform:Uniform",
        "scheduled": "curro.methods.selection.scheduled:Scheduled",
        "prioritized-replay": "curro.methods.selection.prioritized_replay:prioritized_replay",
        "prioritized-replay-published": "curro.methods.selection.published_replay:PublishedReplay",
        "pspo": "curro.methods.selection.prioritized_sampling:PrioritizedSampling",
        "least-visited": "curro.methods.selection.least_visited:LeastVisited",
        "metis": "curro.methods.selection.predicted:metis",
        "pcl": "curro.methods.selection.predicted:pcl",
        "posterior": "curro.methods.selection.predicted:posterior",
        "frontier": "curro.methods.selection.predicted:frontier",
        "sec": "curro.methods.selection.sec:SelfEvolvingCurriculum",
        "adcl": "curro.methods.selection.adcl:ADCL",
        "greso": "curro.contrib.greso:Greso",
        "target": "curro.contrib.target:Target",
        "ucb": "curro.contrib.source_bandits:UpperConfidence",
        "progress": "curro.contrib.source_bandits:LearningProgress",
    },
    "predictor": {
        "metis": "curro.methods.prediction.metis:Metis",
        "pcl": "curro.methods.prediction.value_model:ValueModel",
        "beta": "curro.methods.prediction.posterior:FadedPosterior",
        "frontier": "curro.methods.prediction.frontier:FeaturePosterior",
    },
    "allocation": {
        "equal": "curro.methods.allocation.equal:Equal",
        "knapsack": "curro.methods.allocation.knapsack:Knapsack",
        "estimates": "curro.methods.allocation.estimates:Estimates",
        "probe": "curro.methods.allocation.probe:Probe",
    },
    "advantage": {
        "group": "curro.methods.advantage.group:GroupRelative",
        "leave-one-out": "curro.methods.advantage.leave_one_out:LeaveOneOut",
        "smoothed": "curro.methods.advantage.smoothed:Smoothed",
    },
    "admission": {
        "everything": "curro.core.bases:Everything",
        "band": "curro.methods.admission.band:DifficultyBand",
        "variance": "curro.methods.admission.variance:VarianceBand",
        "signal": "curro.methods.admission.signal:Signal",
    },
}

VERIFIERS = {
    "math": "curro.reward.math:Math",
    "exact": "curro.reward.text:Exact",
    "reasoning-gym": "curro.reward.reasoning_gym:verify",
    "code": "curro.reward.code:Code",
    "function-calls": "curro.contrib.bfcl.function_calls:verify",
}
"""Rewards that verify an answer, by name: a class, which makes a verifier of its options, or a verifier."""

OUTCOMES = {
    *VERIFIERS, "lab", "bfcl", "verifiers", "verifier", "verify", "acc", "accuracy", "accuracy_reward",
    "accuracy_reward_func", "reasoning_accuracy_reward", "correct", "correct_reward", "correctness",
    "correctness_reward", "correctness_reward_func", "is_correct", "answer_reward", "answer_correctness",
    "check_answer", "exact_match", "exact_match_reward", "equation_reward_func", "math_reward", "code_reward",
    "pass_rate", "tests_passed", "unit_test_reward",
}  # fmt: skip
"""Names under which curro, TRL and users' scripts have the part of a reward that verifies the answer."""

REWARDS = {
    **VERIFIERS,
    "format": "curro.reward.text:Format",
    "closed-thought": "curro.reward.text:closed_thought",
    "language": "curro.reward.text:language",
    "cosine": "curro.reward.text:Cosine",
    "overlong": "curro.reward.text:Overlong",
}
"""All rewards by name; what is no verifier rewards a length, a format or the like."""

PLAIN = ("signal", "source_weights")
"""Settings of a curriculum that are no methods; `Curriculum` reads their text."""

_TYPES: dict[str, tuple[type, str]] = {
    "bool": (bool, "true or false"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "str": (str, "text"),
    "None": (NoneType, "none"),
}
"""By the annotation of an option as it is written: what its value must be, and in words."""


def build(kind: str, spec: str | Mapping[str, Any]) -> Any:
    """The method of this kind that `spec` names.

    Args:
        kind: "selection", "allocation", "advantage", "admission" or "predictor".
        spec: a dict with `name` and the method's options, or text: `name:option=value,...`. `name` is a
            built-in's or `module:Class`. A value without a name goes to the options in their order.

    Raises:
        ConfigError: an unknown name or option, with the right ones; a class that cannot be imported.
    """
    if not isinstance(spec, str | Mapping):
        raise ConfigError(f"{kind} is a name, or a dict of `name` and options, not {spec!r}")
    options = dict(parse(kind, spec) if isinstance(spec, str) else spec)
    positional = options.pop("", [])
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"{kind} needs a name: one of {', '.join(sorted(BUILTIN[kind]))}, or module:Class")
    target = BUILTIN[kind].get(name, name)
    if ":" not in target:
        raise ConfigError(
            f"no {kind} is called {name!r:.100}{_hint(name, BUILTIN[kind])}; your own is module:Class"
        )
    method = construct(f"{kind} {name!r}", load_object(target, kind), options, positional)
    # by this a checkpoint knows a method that is an option of another one
    method.built_from = {"name": name, **options, **({"": positional} if positional else {})}
    return method


def construct(
    label: str,
    factory: Any,
    options: dict[str, Any],
    positional: Sequence[Any] = (),
    also: Sequence[str] = (),
) -> Any:
    """Call `factory` with options.

    Raises:
        ConfigError: an option that it, or `also`, does not know; a value that is not of the type its
            signature says (`int`, `float`, `bool`, `str`), or that it refuses with a TypeError.
    """
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{label} cannot be built from options: {error}") from error
    known = {name: p for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if len(positional) > len(known):
        raise ConfigError(f"{label} takes {len(known)} options, not {len(positional)}")
    options = dict(zip(known, positional, strict=False)) | options
    for option, value in options.items():
        if option in known:
            annotation = known[option].annotation
            if value is None and annotation in (str, "str"):
                options[option] = "none"  # which is a word like another, where an option is text
            _check_type(f"{label}: {option}", options[option], annotation)
        elif not takes_any:
            raise ConfigError(f"{label} has no option {option!r}{_hint(option, [*also, *known])}")
    needed = [name for name, p in known.items() if p.default is p.empty]
    missing = [name for name in needed if name not in options]
    if missing:
        raise ConfigError(f"{label} needs {' and '.join(needed)}; missing: {', '.join(missing)}")
    try:
        return factory(**options)
    except TypeError as error:
        raise ConfigError(f"{label}: {error}") from error


def parse(kind: str, text: str) -> dict[str, Any]:
    """`name:option=value,...` as a dict; values that stand without a name under the key "".

    Raises:
        ConfigError: a value after `=` without a name before it.
    """
    name, _, rest = text.partition(":")
    attribute, _, more = rest.partition(":")
    if name not in BUILTIN[kind] and attribute.isidentifier():
        name, rest = f"{name}:{attribute}", more
    return {"name": name, **parse_options(rest, text)}


def parse_options(options_text: str, text: str) -> dict[str, Any]:
    """`option=value,...` as a dict; values that stand without a name under the key ""."""
    options: dict[str, Any] = {}
    for item in options_text.split(",") if options_text else []:
        name, equals, value = item.partition("=")
        if equals and not name.strip():
            raise ConfigError(f"{item!r} in {text!r} names no option: write option=value")
        if equals:
            options[name.strip()] = _value(value)
        else:
            options.setdefault("", []).append(_value(item))
    return options


def parse_curriculum(text: str) -> dict[str, Any]:
    """`SELECTION allocation=... signal=...`, separated by spaces, as `Curriculum.from_config` takes it."""
    first, *rest = text.split() or [""]
    config: dict[str, Any] = {"selection": parse("selection", first)}
    for part in rest:
        kind, equals, spec = part.partition("=")
        if not equals or kind not in (*BUILTIN, *PLAIN) or kind in config:
            raise ConfigError(
                f"{part!r} in {text!r} is not a part of a curriculum: write SELECTION allocation=... "
                "advantage=... admission=... signal=... source_weights=..., each once, separated by spaces"
            )
        config[kind] = spec if kind in PLAIN else parse(kind, spec)
    return config


def expand_curriculum(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a curriculum, with the parts of the text `curriculum` under their own names.

    `{"curriculum": "uniform admission=signal", "seed": 1}` becomes `{"selection": {"name": "uniform"},
    "admission": {"name": "signal"}, "seed": 1}`. So a host's settings take what `--curriculum` takes.
    """
    parts = dict(settings)
    if "curriculum" not in parts:
        return parts
    text = parts.pop("curriculum")
    if not isinstance(text, str):
        raise ConfigError(
            f"curriculum is a text as 'frontier admission=signal', not {text!r}; dicts stand under "
            "selection, admission and advantage"
        )
    config = parse_curriculum(text)
    for kind in config:
        if parts.get(kind) is not None:
            raise ConfigError(
                f"the {kind} is named twice, in curriculum ({text!r}) and as {kind} ({parts[kind]!r}): keep "
                "one of them"
            )
    return parts | config


def _check_type(option: str, value: Any, annotation: Any) -> None:
    names = str(getattr(annotation, "__name__", annotation)).split(" | ")
    kinds, descriptions = zip(*(_TYPES.get(name, (object, "")) for name in names), strict=True)
    if not isinstance(value, kinds) or (isinstance(value, bool) and {bool, object}.isdisjoint(kinds)):
        raise ConfigError(f"{option} is {' or '.join(descriptions)}, not {value!r:.100}")
    if isinstance(value, Integral) and abs(int(value)) >> 63:
        raise ConfigError(f"{option} is {value!r:.20}..., which is beyond 64 bits")


def _value(text: str) -> Any:
    text = text.strip()
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def _hint(wrong: str, right: Any) -> str:
    return f"{did_you_mean(wrong, right)}; there are: {', '.join(sorted(right)) or 'none'}"
