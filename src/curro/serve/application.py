"""The service: an ASGI application that puts HTTP requests to a curriculum in a folder."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.durable import DurableCurriculum
from curro.durable.calls import CALLS
from curro.durable.replies import is_error, pack, unpack
from curro.errors import CheckpointError, ConfigError, CurroError, ExhaustedError, TicketError
from curro.serve.questions import FIELDS, as_json, read_fields
from curro.serve.written_run import ServedRun
from curro.storage.frames import decode, encode

JSON, FRAME = "application/json", "application/vnd.curro.frame"
LARGEST = 1 << 26
"""Bytes of a request's body."""

_STATUS = {ExhaustedError: 409, TicketError: 409, CheckpointError: 500}
_NAME = re.compile(r"[\w-][\w.-]{0,99}")

Message = dict[str, Any]


@dataclass(frozen=True)
class Credits:
    """Advantages (P, G) and importance weights (P,), as `Curriculum.credit` takes them."""

    advantages: np.ndarray
    weights: np.ndarray


class Refused(Exception):
    """A request that never reaches the curriculum: an HTTP status and a sentence."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Service:
    """Answers `POST` to each of `FIELDS`, and `GET /metrics` and `/`.

    A body is JSON, or a frame of arrays (`curro.storage.frames`) under its own content type; the reply has
    the form of the body. Requests are carried out one at a time, in the order in which they are complete.

    Args:
        durable: the curriculum.
        token: that every request has to carry, as `Authorization: Bearer TOKEN`.
        about: what `GET /` tells besides.
        run: writes down what is reported; None where nothing does.
    """

    def __init__(
        self, durable: DurableCurriculum, token: str, about: Mapping[str, Any], run: ServedRun | None = None
    ) -> None:
        self.durable, self.about, self.run = durable, dict(about), run
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
            status, body = self._answer(scope["method"], scope["path"], await _body(receive), form)
        except Refused as refusal:
            status, body = refusal.status, _written({"error": _words(refusal)}, form)
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
        asked = _read(body, form)
        if question in CALLS:
            return self._call(question, asked, form)
        fields = read_fields(question, asked)
        return 200, _written(getattr(self, f"_{question}")(**fields), form)

    def _call(self, question: str, asked: dict[str, Any], form: str) -> tuple[int, bytes]:
        """A call that changes the curriculum: carried out once, however often it is repeated."""
        client, number = asked.pop("client", None), asked.pop("call", None)
        if not isinstance(client, str) or not 0 < len(client) <= 100:
            raise ConfigError("`client` is the caller's own name, of 1 to 100 characters")
        if type(number) is not int or not 0 <= number < 2**53:
            raise ConfigError("`call` is the number of the client's call, which it counts up")
        given, is_new = read_fields(question, asked), not self.durable.knows(client, number)
        reply = self.durable.call(client, number, question, given)
        if self.run is not None and is_new and not is_error(reply):
            self.run.record(question, given, unpack(decode(reply)))
        status = 200
        if is_error(reply):
            kind = decode(reply)["error"]["kind"]
            status = next((code for known, code in _STATUS.items() if known.__name__ == kind), 400)
        return status, reply if form == FRAME else _written(_flat(decode(reply)), form)

    def _about(self) -> dict[str, Any]:
        curriculum = self.durable.curriculum
        return {
            "prompts": curriculum.table.size,
            "fingerprint": curriculum.table.fingerprint,
            "curriculum": curriculum.config,
            "step": curriculum.step,
            **self.about,
        }

    def _metrics(self) -> dict[str, Any]:
        return self.durable.curriculum.metrics()

    def _more(self, **given: Any) -> dict[str, Any]:
        return {"rollouts": self.durable.curriculum.more(**given)}

    def _credit(self, advantages: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
        if advantages.ndim != 2 or weights.shape != advantages.shape[:1]:
            raise ConfigError(
                f"advantages have shape {advantages.shape} and weights {weights.shape}, not (P, G) and (P,)"
            )
        return {"credit": self.durable.curriculum.credit(Credits(advantages, weights))}

    def _save(self, name: Any) -> dict[str, Any]:
        path = self._checkpoint(name)
        self.durable.curriculum.save(path)
        return {"path": str(path)}

    def _load(self, name: Any, kept: np.ndarray | tuple[()] = ()) -> dict[str, Any]:
        self.durable.load(self._checkpoint(name), kept=kept)
        if self.run is not None:
            self.run.resume()
        return {}

    def _checkpoint(self, name: Any) -> Any:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError("the name of a checkpoint is of letters, digits, '_', '-' and '.', not first")
        return self._checkpoints / f"{name}.npz"


async def _body(receive: Callable[[], Awaitable[Message]]) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request ended before its body")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST:
            raise Refused(413, f"a body has at most {LARGEST} bytes: ask in several calls")
        if not message.get("more_body", False):
            return b"".join(parts)


def _read(body: bytes, form: str) -> dict[str, Any]:
    try:
        asked = decode(body) if form == FRAME else json.loads(body)
    except (ValueError, RecursionError) as error:  # CheckpointError is one
        raise Refused(400, f"the body is no {form}: {error}") from None
    if not isinstance(asked, dict):
        raise Refused(400, "the body is not an object")
    return asked


def _written(reply: Mapping[str, Any], form: str) -> bytes:
    return encode(reply) if form == FRAME else as_json(reply)


def _flat(reply: dict[str, Any]) -> dict[str, Any]:
    """A draw or a verdict as JSON has it, without the name of what it is; both under their names."""
    if "verdict" not in reply:
        return reply.get("draw", reply)
    verdict = reply["verdict"] | {"auxiliary_samples": reply["auxiliary_samples"] or None}
    return {"verdict": verdict, "draw": reply["draw"] or None} if "draw" in reply else verdict


def _words(refusal: Refused) -> dict[str, str]:
    return {"kind": "Refused", "words": str(refusal)}
