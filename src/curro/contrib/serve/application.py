"""The service without a network: turns requests into calls of a `SavedCurriculum`, and results into JSON."""

from __future__ import annotations

import hmac
import json
import math
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np

from curro.contrib.serve.client import FRAME, JSON
from curro.contrib.serve.saved import SavedCurriculum
from curro.core.errors import (
    CheckpointError,
    ConfigError,
    CurroError,
    ExhaustedError,
    RewardError,
    TicketError,
)
from curro.core.verdicts import Credited

FIELDS = {
    "select": {"n": True, "step": True, "rollouts": False},
    "observe": {"tickets": True, "rewards": True, "named": False},
    "drop": {"tickets": True},
    "credit": {"advantages": True, "weights": True},
    "save": {"name": True},
    "load": {"name": True},
}
"""The fields of each question, and whether each is required."""

LARGEST_JSON = 1 << 24
"""Bytes of a request's body; once read, JSON may take twenty times as many."""

MOST_REWARDS = 1 << 23
"""Rewards of a call, once all groups are as long as the longest."""

MOST_PROMPTS = 1 << 20
"""Prompts of a call: methods that draw a prompt again would give any number, and a body may hold millions."""

REPLIES = 64
"""How many replies are kept, to be given again to whoever asks again with the same key."""

_LARGEST_NUMBER = 1e300
"""Integers in JSON may have any number of digits; larger ones than this are refused."""

_STATUS = {ExhaustedError: 409, TicketError: 409}
_NAME = re.compile(r"[\w-][\w.-]{0,99}", re.ASCII)


class Refused(Exception):
    """A request that never reaches the curriculum: an HTTP status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Service:
    """Answers `POST` to each of `FIELDS`, and `GET /metrics` and `/`.

    Bodies and replies are JSON objects. Every reply to a question names the `start` that answered it, so that
    a client learns that tickets of an earlier one were dropped.

    Args:
        saved: the curriculum.
        token: every request has to carry it, as `Authorization: Bearer TOKEN`.
    """

    def __init__(self, saved: SavedCurriculum, token: str) -> None:
        self.saved = saved
        self._expected = f"Bearer {token}".encode()
        self._replies: OrderedDict[str, tuple[bytes, tuple[int, bytes]]] = OrderedDict()
        self._lock = Lock()

    def check_token(self, authorization: str) -> None:
        """Refuse a request whose header `Authorization` lacks the token; called before its body is read."""
        if not hmac.compare_digest(authorization.encode("latin-1", "replace"), self._expected):
            raise Refused(401, "the request lacks the service's token: Authorization: Bearer TOKEN")

    def answer(self, method: str, path: str, body: bytes, form: str, key: str = "") -> tuple[int, bytes]:
        """The status and the body of the reply.

        Args:
            form: the content type of the body.
            key: a question with the key of an earlier one gets its reply again, and nothing is done twice;
                another question with that key is refused. Empty: a question of its own.
        """
        if not key:
            return self._answer_anew(method, path, body, form)
        with self._lock:  # who asks again must not overtake the first question
            asked = sha256(f"{method} {path} {form} ".encode("latin-1", "replace") + body).digest()
            if key not in self._replies:
                self._replies[key] = asked, self._answer_anew(method, path, body, form)
                while len(self._replies) > REPLIES:
                    self._replies.popitem(last=False)
            asked_before, reply = self._replies[key]
            if asked != asked_before:
                sentence = "the key is an earlier question's, and this is another one: give it its own"
                return 422, error_body(Refused(422, sentence))
            return reply

    def _answer_anew(self, method: str, path: str, body: bytes, form: str) -> tuple[int, bytes]:
        try:
            return 200, as_json(self._answer(method, path, body, form))
        except Refused as refusal:
            return refusal.status, error_body(refusal)
        except OSError as error:
            sentence = f"the service cannot write or read its files: {error.strerror or error}"
            return 500, error_body(Refused(500, sentence))
        except CheckpointError as error:
            return (404 if "no saved curriculum" in str(error) else 409), error_body(error)
        except CurroError as error:
            return _STATUS.get(type(error), 400), error_body(error)

    def _answer(self, method: str, path: str, body: bytes, form: str) -> dict[str, Any]:
        question = path.removeprefix("/")
        if question in ("", "metrics"):
            if method != "GET":
                raise Refused(405, f"{path} takes GET")
            return self.saved.curriculum.metrics() if question else self._about()
        if question not in FIELDS:
            raise Refused(404, f"there is no {path!r:.50}; there are: /{', /'.join((*FIELDS, 'metrics'))}")
        if method != "POST":
            raise Refused(405, f"{path} takes POST")
        fields = read_fields(question, _read(body, form))
        reply = getattr(self, f"_{question}")(**fields)
        return {**reply, "start": self.saved.start}

    def _about(self) -> dict[str, Any]:
        curriculum = self.saved.curriculum
        return {
            "prompts": curriculum.table.size,
            "fingerprint": curriculum.table.fingerprint,
            "curriculum": curriculum.config,
            "has_weights": curriculum.selection.has_weights,
            "step": curriculum.step,
            "start": self.saved.start,
        }

    def _select(self, **fields: Any) -> dict[str, Any]:
        return vars(self.saved.select(**fields))

    def _observe(self, **fields: Any) -> dict[str, Any]:
        verdict = vars(self.saved.observe(**fields))
        return {name: values for name, values in verdict.items() if name != "auxiliary_samples"}

    def _drop(self, tickets: np.ndarray) -> dict[str, Any]:
        self.saved.drop(tickets)
        return {}

    def _credit(self, advantages: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
        if advantages.ndim != 2 or weights.shape != advantages.shape[:1]:
            raise ConfigError(
                f"advantages have shape {advantages.shape} and weights {weights.shape}, not (P, G) and (P,)"
            )
        return {"credit": self.saved.curriculum.credit(Credited(advantages, weights))}

    def _save(self, name: str) -> dict[str, Any]:
        return {"path": str(self.saved.save(name))}

    def _load(self, name: str) -> dict[str, Any]:
        self.saved.load(name)
        return {}


def read_fields(question: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a question; tickets, rewards, advantages and weights are arrays.

    Rewards may have `null` for a rollout that was not scored, and groups of different size.

    Raises:
        ConfigError: a field is missing or unknown, or has a value of another type.
        RewardError: rewards, or their parts, are not numbers.
    """
    is_needed = FIELDS[question]
    for name in body:
        if name not in is_needed:
            raise ConfigError(f"{question} has no field {name!r:.50}; it has: {', '.join(is_needed)}")
    for name, needed in is_needed.items():
        if needed and name not in body:
            raise ConfigError(f"{question} needs the field {name!r}")
    fields = dict(body)
    if "tickets" in fields:
        fields["tickets"] = _whole_numbers("tickets", fields["tickets"])
    if type(fields.get("n")) is int and fields["n"] > MOST_PROMPTS:
        raise ConfigError(
            f"a call gives at most {MOST_PROMPTS} prompts, not {fields['n']!r:.20}: ask in several"
        )
    if "name" in fields and not (isinstance(fields["name"], str) and _NAME.fullmatch(fields["name"])):
        raise ConfigError(
            "the name of a checkpoint has letters, digits, '_', '-' and '.', and does not begin with '.'"
        )
    if question == "observe":
        fields |= _read_rewards(fields["rewards"], fields.get("named"))
    for name in ("advantages", "weights"):
        if name in fields:
            fields[name] = _floats(name, fields[name])
    return fields


def _read_rewards(rewards: Any, named: Any) -> dict[str, Any]:
    """`rewards` and `named` as arrays."""
    if named is not None and not isinstance(named, dict):
        raise RewardError("`named` has the parts of the reward by their names")
    rows_of = {"rewards": rewards, **{f"named/{name}": part for name, part in (named or {}).items()}}
    padded = 0
    for name, rows in rows_of.items():
        if not (isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
            raise RewardError(f"{name:.50} are a list for each ticket, with a number for each rollout")
        padded += len(rows) * max(1, *map(len, rows)) if rows else 0
    if padded > MOST_REWARDS:
        raise RewardError(
            f"groups as long as the longest of them would have {padded} rewards, and a call takes "
            f"{MOST_REWARDS}: observe fewer groups in a call"
        )
    arrays = {name: _numbers(name, rows) for name, rows in rows_of.items()}
    return {
        "rewards": arrays.pop("rewards"),
        "named": {name.removeprefix("named/"): part for name, part in arrays.items()},
    }


def as_json(state: Mapping[str, Any]) -> bytes:
    """A reply as JSON: arrays as lists, and null for what is not finite."""
    return json.dumps(_plain(state), allow_nan=False).encode()


def error_body(error: Exception) -> bytes:
    """The body of a reply that refuses: the error's class and its sentence."""
    return as_json({"error": {"kind": type(error).__name__, "words": str(error)}})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole_numbers(name: str, value: Any) -> np.ndarray:
    numbers = value if isinstance(value, list) else [value]
    if len(numbers) > MOST_PROMPTS:
        raise ConfigError(
            f"a call settles at most {MOST_PROMPTS} prompts, not {len(numbers)}: ask in several"
        )
    if not all(type(number) is int and -(1 << 63) <= number < 1 << 63 for number in numbers):
        raise ConfigError(f"{name} are a list of whole numbers, not {value!r:.50}")
    return np.array(numbers, np.int64)


def _numbers(name: str, rows: Sequence[list[Any]]) -> np.ndarray:
    """float64 (P, G) of rows of numbers; NaN for null, and where a row is shorter than the longest."""
    array = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for row, values in zip(array, rows, strict=True):
        for column, value in enumerate(values):
            if value is not None:
                if type(value) not in (int, float) or not -_LARGEST_NUMBER < value < _LARGEST_NUMBER:
                    raise RewardError(
                        f"{name:.50} are finite numbers, or null for not scored, not {value!r:.50}"
                    )
                row[column] = value
    return array


def _floats(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} are numbers, not {value!r:.50}") from None


def _read(body: bytes, form: str) -> dict[str, Any]:
    if form != JSON:
        old = ": this is a client of curro 0.2, install the service's version there" if form == FRAME else ""
        raise Refused(415, f"a body is {JSON}{old}")
    if len(body) > LARGEST_JSON:
        raise Refused(413, f"a body has at most {LARGEST_JSON} bytes: ask in several calls")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Refused(400, "the body is not an object")
    return fields
