"""BFCL's multi-turn conversations as rows of prompts."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curro.contrib.bfcl.environment import MISSING, MODULES, Bfcl
from curro.core.errors import ConfigError
from curro.data.raw import Row
from curro.reward.environments.environment import episode_scores
from curro.reward.reward import Score

PUBLISHED = ("base", "miss_func", "miss_param", "long_context")
CATEGORIES = (*PUBLISHED, "composite")
"""The package has no file of the composite, which `composite` puts together."""

ALL = "all"
SUMMARY = "summary"
"""Names: all categories together, and after a slash functions in sentences in place of JSON."""

MORE_FUNCTIONS = "More functions are available now:\n{functions}\nPlease try again."

SYSTEM = """\
You solve tasks by calling functions. Answer with a list of calls and nothing else:
[name(parameter=value, ...), name(...)]
Values are Python literals. You are then shown what each call returned, and may call again.
When a request is done, or cannot be done with what you have, say so in a sentence without calls.

The functions{form}:
{functions}"""


def rows(name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
    """The conversations of a category, or of all one category after the other, in BFCL's order.

    A hash of their numbers puts 17.8% of them into the test split: a conversation has the same number, and so
    the same split, in each category.

    Args:
        name: a category or `all`; with `/summary` functions are told in sentences, as METIS, appendix A.2,
            tells them, and not as JSON.

    Returns:
        rows with `prompt` (a conversation up to the first request), `answer` (JSON: for each turn the calls
        that solve it), `key` (BFCL's id), and `task`, JSON that the environment reads.

    Raises:
        ConfigError: no such category or split, or bfcl-eval is not installed.
    """
    categories, is_summary = parse_name(name)
    if split not in ("train", "test"):
        raise ConfigError(f"split {split!r} is not one of train, test")
    entries = [
        pair
        for category in categories
        for pair in (_composites() if category == "composite" else _entries(category))
        if _split(pair[0]["id"]) == split
    ]
    return [_row(entry, answer, is_summary) for entry, answer in entries[:limit]]


def parse_name(name: str) -> tuple[Sequence[str], bool]:
    """The categories that a name stands for, and whether functions are told in sentences."""
    category, _, form = name.partition("/")
    if category not in (*CATEGORIES, ALL):
        there = ", ".join((*CATEGORIES, ALL))
        raise ConfigError(f"BFCL has no multi-turn category {category!r}; there are: {there}")
    if form not in ("", SUMMARY):
        raise ConfigError(f"bfcl:{name}: after the slash only {SUMMARY!r} can stand, not {form!r}")
    return CATEGORIES if category == ALL else (category,), form == SUMMARY


Entry = tuple[Mapping[str, Any], list[list[str]]]
"""A conversation as BFCL has it, and for each turn the calls that solve it."""


def _entries(category: str) -> list[Entry]:
    answers = {line["id"]: line["ground_truth"] for line in _lines(f"possible_answer/{_file(category)}")}
    return [(entry, answers[entry["id"]]) for entry in _lines(_file(category))]


def _composites() -> list[Entry]:
    """BFCL's composite, whose file is not in the package, from its parts.

    BFCL makes its other categories by changes of the conversations of `base`. The composite has all of them:
    functions are held back, a parameter is missing at first, and the context is long. A conversation is left
    out where one of the two changes touches more than the turn that it is about, since it cannot be told
    then how they go together.
    """
    parts = [
        {_number(entry["id"]): (entry, answer) for entry, answer in _entries(category)}
        for category in ("base", "miss_func", "miss_param")
    ]
    made = (composite(*(part[number] for part in parts)) for number in parts[0])
    return [entry for entry in made if entry is not None]


def composite(base: Entry, held_back: Entry, unsaid: Entry) -> Entry | None:
    """A conversation with the changes of two others of the same number; None if they do not fit together.

    Args:
        base: the plain conversation.
        held_back: with empty turns at which functions that the turn before needs become available.
        unsaid: with a turn in which a parameter is missing, and a further turn that says it.
    """
    requests, answers = base[0]["question"], base[1]
    later = {int(turn): names for turn, names in held_back[0]["missed_function"].items()}
    rest = [turn for i, turn in enumerate(held_back[0]["question"]) if i not in later]
    changed = unsaid[0]["question"]
    at = next((i for i, turn in enumerate(requests) if turn != changed[i]), None)
    same = ("involved_classes", "initial_config")
    if (
        rest != requests
        or at is None
        or len(changed) != len(requests) + 1
        or changed[at + 2 :] != requests[at + 1 :]
        or any(part[0][name] != base[0][name] for part in (held_back, unsaid) for name in same)
    ):
        return None
    revealed, turn = {}, -1
    for i in range(len(held_back[0]["question"])):
        if i in later:
            revealed[turn] = later[i]
        else:
            turn += 1
    turns: list[tuple[Any, list[str]]] = []
    missed: dict[str, list[str]] = {}
    for i, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        if i == at:
            turns.append((changed[i], []))
            request = changed[i + 1]
        turns.append((request, [] if i in revealed else answer))
        if i in revealed:
            missed[str(len(turns))] = revealed[i]
            turns.append(([], answer))
    entry = {**base[0], "id": f"multi_turn_composite_{_number(base[0]['id'])}", "missed_function": missed}
    return {**entry, "question": [turn for turn, _ in turns]}, [answer for _, answer in turns]


def _row(entry: Mapping[str, Any], answer: list[list[str]], is_summary: bool) -> dict[str, Any]:
    tell = summary if is_summary else _json
    functions = [function for name in entry["involved_classes"] for function in _lines(_doc_file(name))]
    later = {int(turn): names for turn, names in entry.get("missed_function", {}).items()}
    held_back = {name for names in later.values() for name in names}
    offered = [function for function in functions if function["name"] not in held_back]
    requests = [
        MORE_FUNCTIONS.format(functions=tell([f for f in functions if f["name"] in later[turn]]))
        if turn in later
        else "\n".join(message["content"] for message in messages)
        for turn, messages in enumerate(entry["question"])
    ]
    task = {
        "requests": requests,
        "answer": answer,
        "classes": entry["involved_classes"],
        "config": entry["initial_config"],
        "long_context": any(word in entry["id"] for word in ("long_context", "composite")),
    }
    prompt = [
        {
            "role": "system",
            "content": SYSTEM.format(form="" if is_summary else ", as JSON", functions=tell(offered)),
        },
        {"role": "user", "content": requests[0]},
    ]
    return {"prompt": prompt, "answer": _json(answer), "key": entry["id"], "task": _json(task)}


def summary(functions: Sequence[Mapping[str, Any]]) -> str:
    """The functions in sentences, a paragraph each: what they do, their parameters, and what they return."""
    return "\n\n".join(map(_sentences, functions))


def _sentences(function: Mapping[str, Any]) -> str:
    needed = function["parameters"].get("required", [])
    parameters = function["parameters"]["properties"]
    does = function["description"].rpartition("Tool description:")[2]
    said = [f"{function['name']}({', '.join(parameters)}): {_sentence(does)}"]
    for name, facts in parameters.items():
        kind = _KINDS.get(facts["type"], facts["type"])
        default = f", {facts['default']!r} if it is left out" if "default" in facts else ""
        may = "" if name in needed or default else ", which may be left out"
        said.append(f"{name} is {kind}{default}{may}: {_sentence(facts['description'])}")
    returned = function.get("response", {}).get("properties", {})
    if returned:
        said.append(f"It returns {', '.join(returned)}.")
    return "\n".join(said)


_KINDS = {
    "string": "a text",
    "integer": "a whole number",
    "float": "a number",
    "boolean": "True or False",
    "array": "a list",
    "dict": "a dictionary",
}


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith(".") else f"{line}."


def _number(identifier: str) -> str:
    return identifier.rpartition("_")[2]


def _split(identifier: str) -> str:
    number = _number(identifier)
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
    """A `curro.core.loading.Provider` of BFCL's multi-turn conversations and their environment.

    Raises:
        ConfigError: from every method, for a name that there is not, or without bfcl-eval.
    """

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        return rows(name, split, limit)

    def verify(self, name: str) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
        """The scores that the environment gave."""
        parse_name(name)
        return episode_scores

    def environment(self, name: str) -> Bfcl:
        return Bfcl()

    def model(self, name: str) -> tuple[Any, Any]:
        raise ConfigError("BFCL brings no models: name a folder or a hub id")

    def code(self, name: str) -> list[str]:
        return []
