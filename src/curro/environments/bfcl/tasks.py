"""BFCL's multi-turn conversations as rows of prompts."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curro.data.raw import Row
from curro.environments.bfcl.environment import MISSING, MODULES, Bfcl
from curro.environments.environment import episode_scores
from curro.errors import ConfigError
from curro.reward.reward import Score

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")

MORE_FUNCTIONS = "More functions are available now:\n{functions}\nPlease try again."

SYSTEM = """\
You solve tasks by calling functions. Answer with a list of calls and nothing else:
[name(parameter=value, ...), name(...)]
Values are Python literals. You are then shown what each call returned, and may call again.
When a request is done, or cannot be done with what you have, say so in a sentence without calls.

The functions, as JSON:
{functions}"""


def rows(category: str, split: str, limit: int | None) -> list[dict[str, Any]]:
    """The conversations of a category, in BFCL's order.

    A fifth of them, by a hash of their numbers, is the test split: a conversation has the same number, and so
    the same split, in each category.

    Returns:
        rows with `prompt` (a conversation up to the first request), `answer` (JSON: for each turn the calls
        that solve it), `key` (BFCL's id), and `task`, JSON that the environment reads.

    Raises:
        ConfigError: no such category or split, or bfcl-eval is not installed.
    """
    if category not in CATEGORIES:
        raise ConfigError(f"BFCL has no multi-turn category {category!r}; there are: {', '.join(CATEGORIES)}")
    if split not in ("train", "test"):
        raise ConfigError(f"split {split!r} is not one of train, test")
    answers = {entry["id"]: entry["ground_truth"] for entry in _lines(f"possible_answer/{_file(category)}")}
    entries = [entry for entry in _lines(_file(category)) if _split(entry["id"]) == split]
    return [_row(entry, answers[entry["id"]]) for entry in entries[:limit]]


def _row(entry: Mapping[str, Any], answer: list[list[str]]) -> dict[str, Any]:
    functions = [function for name in entry["involved_classes"] for function in _lines(_doc_file(name))]
    later = {int(turn): names for turn, names in entry.get("missed_function", {}).items()}
    held_back = {name for names in later.values() for name in names}
    offered = [function for function in functions if function["name"] not in held_back]
    requests = [
        MORE_FUNCTIONS.format(functions=_json([f for f in functions if f["name"] in later[turn]]))
        if turn in later
        else "\n".join(message["content"] for message in messages)
        for turn, messages in enumerate(entry["question"])
    ]
    task = {
        "requests": requests,
        "answer": answer,
        "classes": entry["involved_classes"],
        "config": entry["initial_config"],
        "long_context": "long_context" in entry["id"],
    }
    prompt = [
        {"role": "system", "content": SYSTEM.format(functions=_json(offered))},
        {"role": "user", "content": requests[0]},
    ]
    return {"prompt": prompt, "answer": _json(answer), "key": entry["id"], "task": _json(task)}


def _split(identifier: str) -> str:
    number = identifier.rpartition("_")[2]
    return "test" if hashlib.blake2b(number.encode(), digest_size=4).digest()[0] % 5 == 0 else "train"


def _file(category: str) -> str:
    return f"BFCL_v4_multi_turn_{category}.json"


def _doc_file(name: str) -> str:
    return f"multi_turn_func_doc/{MODULES[name]}.json"


def _lines(name: str) -> Iterator[Any]:
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or spec.origin is None:
        raise ConfigError(MISSING)
    with (Path(spec.origin).parent / "data" / name).open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class BfclTasks:
    """A `curro.loading.Provider` of BFCL's multi-turn conversations and their environment.

    Raises:
        ConfigError: from every method, for a name that there is not, or without bfcl-eval.
    """

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        return rows(name, split, limit)

    def verify(self, name: str) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
        """The scores that the environment gave."""
        if name not in CATEGORIES:
            raise ConfigError(f"BFCL has no multi-turn category {name!r}; there are: {', '.join(CATEGORIES)}")
        return episode_scores

    def environment(self, name: str) -> Bfcl:
        return Bfcl()

    def model(self, name: str) -> tuple[Any, Any]:
        raise ConfigError("BFCL brings no models: name a folder or a hub id")
