"""The service: an ASGI application that puts HTTP requests to a curriculum in a folder."""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.contrib.serve.client import FRAME
from curro.core.errors import (
    CheckpointError,
    ConfigError,
    CurroError,
    ExhaustedError,
    RewardError,
    TicketError,
)
from curro.durable import DurableCurriculum
from curro.durable.durable_curriculum import CALLS
from curro.durable.frames import decode, encode
from curro.durable.replies import is_error, pack

_CHOICE = {"n": True, "step": True, "rollouts": False}
_GROUPS = {"tickets": True, "rewards": True, "named": False}

FIELDS = {
    "select": _CHOICE,
    "observe": _GROUPS,
    "observe_and_select": _GROUPS | _CHOICE,
    "drop": {"tickets": True},
    "credit": {"advantages": True, "weights": True},
    "save": {"name": True},
    "load": {"name": True, "kept": False},
}
"""The fields of each question, and whether each is required."""


def read_fields(question: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a question, those of tickets and rewards as arrays.

    Rewards in lists may have `null` for a rollout that was not scored, and groups of different size, which
    are noted as `sizes` where they are observed. Clients of version 0.2 say in `scored` which rollouts have
    a reward; here and in the reply it becomes NaN.

    Raises:
        ConfigError: a field is missing or unknown, or tickets are no whole numbers.
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
    for name in ("tickets", "kept"):
        if name in fields:
            fields[name] = _whole_numbers(name, fields[name])
    if type(fields.get("n")) is int and fields["n"] > MOST_PROMPTS:
        raise ConfigError(
            f"a call gives at most {MOST_PROMPTS} prompts, not {fields['n']!r:.20}: ask in several"
        )
    _check_padding(fields)
    if isinstance(fields.get("rewards"), list):
        rows, fields["rewards"] = fields["rewards"], _numbers("rewards", fields["rewards"])
        sizes_P = np.array([len(row) for row in rows], np.int64)
        if question in CALLS and (sizes_P < fields["rewards"].shape[1]).any():
            fields["sizes"] = sizes_P
    if fields.get("named") is not None:
        if not isinstance(fields["named"], dict):
            raise RewardError("`named` has the parts of the reward by their names")
        fields["named"] = {
            name: _numbers(name, part) if isinstance(part, list) else part
            for name, part in fields["named"].items()
        }
    for name in ("advantages", "weights"):
        if name in fields:
            fields[name] = _floats(name, fields[name])
    return fields


def as_json(state: Mapping[str, Any]) -> bytes:
    """A reply as JSON: arrays as lists, and null for what is not finite."""
    return json.dumps(_plain(state), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole_numbers(name: str, value: Any) -> np.ndarray:
    try:
        array = np.atleast_1d(np.asarray(value))
    except ValueError:
        array = np.empty((0, 0))
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ConfigError(f"{name} are a list of whole numbers, not {value!r:.50}")
    return array.astype(np.int64)


def _check_padding(fields: Mapping[str, Any]) -> None:
    """Refuse groups that would take more memory than a body, once all are as long as the longest."""
    named = fields.get("named")
    parts = [fields.get("rewards"), *(named.values() if isinstance(named, Mapping) else ())]
    padded = 0
    for rows in parts:
        if isinstance(rows, list):
            padded += len(rows) * max((len(row) for row in rows if isinstance(row, list)), default=0)
    if 8 * padded > LARGEST:
        raise RewardError(
            f"groups as long as the longest of them would have {padded} rewards, and a call takes "
            f"{LARGEST // 8}: observe fewer groups in a call"
        )


def _numbers(name: str, rows: Sequence[Any]) -> np.ndarray:
    """float64 (P, G) of rows of numbers; NaN for null, and where a row is shorter than the longest."""
    if not all(isinstance(row, list) for row in rows):
        raise RewardError(f"{name:.50} are a list for each ticket, with a number for each rollout")
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


_LARGEST_NUMBER = 1e300
"""Integers in JSON may have any number of digits; larger ones than this are refused."""

JSON = "application/json"
LARGEST, LARGEST_JSON = 1 << 26, 1 << 24
"""Bytes of a request's body; once read, JSON may take twenty times as many."""

MOST_PROMPTS = 1 << 20
"""Prompts of a call: methods that draw a prompt again would give any number."""

BODY_SECONDS = 60
"""Seconds within which a request's body must arrive."""

_STATUS = {ExhaustedError: 409, TicketError: 409, CheckpointError: 500}
_NAME = re.compile(r"[\w-][\w.-]{0,99}", re.ASCII)

Message = dict[str, Any]


@dataclass(frozen=True)
class Credits:
    """Advantages (P, G) and importance weights (P,), as `Curriculum.credit` takes them."""

    advantages: np.ndarray
    weights: np.ndarray


class Refused(Exception):
    """A request that never reaches the curriculum: an HTTP status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Service:
    """Answers `POST` to each of `FIELDS`, and `GET /metrics` and `/`.

    A body is JSON, or a frame of arrays (`curro.durable.frames`) under its own content type; the reply has
    the form of the body. Requests are carried out one at a time, in the order in which they are complete.

    Args:
        durable: the curriculum.
        token: every request has to carry it, as `Authorization: Bearer TOKEN`.
        about: further fields of the reply to `GET /`.
    """

    def __init__(self, durable: DurableCurriculum, token: str, about: Mapping[str, Any]) -> None:
        self.durable, self.about = durable, dict(about)
        self._expected = f"Bearer {token}".encode()
        self._checkpoints = durable.folder / "checkpoints"

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        headers = dict(scope["headers"])
        form = headers.get(b"content-type", JSON.encode()).decode("latin-1").partition(";")[0].strip()
        try:
            if not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
                raise Refused(401, "the request lacks the service's token: Authorization: Bearer TOKEN")
            if form not in (JSON, FRAME):
                raise Refused(415, f"a body is {JSON} or {FRAME}")
            body = await _body(receive, LARGEST if form == FRAME else LARGEST_JSON)
            status, body = self._answer(scope["method"], scope["path"], body, form)
        except Refused as refusal:
            status, body = refusal.status, _written({"error": _error_fields(refusal)}, form)
        except OSError as error:
            sentence = f"the service cannot write or read its files: {error.strerror or error}"
            status, body = 500, _written({"error": {"kind": "Refused", "words": sentence}}, form)
        except CurroError as error:
            status, body = _STATUS.get(type(error), 400), _written(pack(error), form)
        kind = FRAME if form == FRAME else JSON
        sent = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, method: str, path: str, body: bytes, form: str) -> tuple[int, bytes]:
        question = path.removeprefix("/")
        if method == "GET" and question in ("", "metrics"):
            return 200, _written(self._about() if not question else self._metrics(), form)
        if question not in FIELDS:
            raise Refused(404, f"there is no {path!r:.50}; there are: /{', /'.join((*FIELDS, 'metrics'))}")
        if method != "POST":
            raise Refused(405, f"{path} takes POST")
        fields = _read(body, form)
        if question in CALLS:
            return self._call(question, fields, form)
        fields = read_fields(question, fields)
        return 200, _written(getattr(self, f"_{question}")(**fields), form)

    def _call(self, question: str, fields: dict[str, Any], form: str) -> tuple[int, bytes]:
        """A call that changes the curriculum: carried out once, however often it is repeated."""
        client, number = fields.pop("client", None), fields.pop("call", None)
        if not isinstance(client, str) or not 0 < len(client) <= 100:
            raise ConfigError("`client` is the caller's own name, of 1 to 100 characters")
        if type(number) is not int or not 0 <= number < 2**53:
            raise ConfigError("`call` is the number of the client's call, which it counts up")
        reply = self.durable.call(client, number, question, read_fields(question, fields))
        status = 200
        if is_error(reply):
            kind = decode(reply)["error"]["kind"]
            status = next((code for error_type, code in _STATUS.items() if error_type.__name__ == kind), 400)
        return status, reply if form == FRAME else _written(_flat(decode(reply)), form)

    def _about(self) -> dict[str, Any]:
        curriculum = self.durable.curriculum
        return {
            "prompts": curriculum.table.size,
            "fingerprint": curriculum.table.fingerprint,
            "curriculum": curriculum.config,
            "needs_top_up": curriculum.admission.needs_top_up,
            "has_weights": curriculum.selection.has_weights,
            "step": curriculum.step,
            **self.about,
        }

    def _metrics(self) -> dict[str, Any]:
        return self.durable.curriculum.metrics()

    def _credit(self, advantages: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
        if advantages.ndim != 2 or weights.shape != advantages.shape[:1]:
            raise ConfigError(
                f"advantages have shape {advantages.shape} and weights {weights.shape}, not (P, G) and (P,)"
            )
        return {"credit": self.durable.curriculum.credit(Credits(advantages, weights))}

    def _save(self, name: Any) -> dict[str, Any]:
        path = self._checkpoint(name)
        if self._checkpoints.is_symlink():
            raise ConfigError(f"{self._checkpoints} is a link, and nothing is written through one: remove it")
        self.durable.curriculum.save(path)
        return {"path": str(path)}

    def _load(self, name: Any, kept: np.ndarray | tuple[()] = ()) -> dict[str, Any]:
        self.durable.load(self._checkpoint(name), kept=kept)
        return {}

    def _checkpoint(self, name: Any) -> Any:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError("the name of a checkpoint is of letters, digits, '_', '-' and '.', not first")
        return self._checkpoints / f"{name}.npz"


async def _body(receive: Callable[[], Awaitable[Message]], largest: int) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _whole_body(receive, largest)
    except TimeoutError:
        raise Refused(408, f"the request's body was not complete within {BODY_SECONDS} s") from None


async def _whole_body(receive: Callable[[], Awaitable[Message]], largest: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request ended before its body")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > largest:
            raise Refused(413, f"a body of this kind has at most {largest} bytes: ask in several calls")
        if not message.get("more_body", False):
            return b"".join(parts)


def _read(body: bytes, form: str) -> dict[str, Any]:
    try:
        fields = decode(body) if form == FRAME else json.loads(body)
    except (ValueError, RecursionError) as error:  # CheckpointError is one
        raise Refused(400, f"the body is no {form}: {error}") from None
    if not isinstance(fields, dict):
        raise Refused(400, "the body is not an object")
    return fields


def _written(reply: Mapping[str, Any], form: str) -> bytes:
    return encode(reply) if form == FRAME else as_json(reply)


def _flat(reply: dict[str, Any]) -> dict[str, Any]:
    """A draw or a verdict as JSON has it, without the name of what it is; both under their names."""
    if "verdict" not in reply:
        return reply.get("draw", reply)
    verdict = reply["verdict"] | {"auxiliary_samples": reply["auxiliary_samples"] or None}
    return {"verdict": verdict, "draw": reply["draw"] or None} if "draw" in reply else verdict


def _error_fields(refusal: Refused) -> dict[str, str]:
    return {"kind": "Refused", "words": str(refusal)}
