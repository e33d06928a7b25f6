"""A curriculum that another process keeps, asked as if it were here."""

from __future__ import annotations

import json
import secrets
import time
import warnings
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import curro.core.errors
from curro.core.errors import ConfigError, CurroError, RewardError
from curro.core.groups import Feedback
from curro.core.identity import check_same_rows
from curro.core.verdicts import Credited, Draw, Verdict

JSON = "application/json"

FRAME = "application/vnd.curro.frame"
"""The content type of clients of version 0.2, which the service refuses by name."""

KEY = "Idempotency-Key"
"""The header that is the same when a question is asked again, so that it is answered once."""

_DTYPES = {
    "prompts": np.int64, "tickets": np.int64, "reasons": np.uint8, "rollouts": np.int64,
    "admitted": np.bool_, "credited": np.bool_,
}  # fmt: skip
"""The types of a draw's and a verdict's arrays; the others are float64, with NaN for null."""


class ServiceError(RuntimeError):
    """The service refused a request before it reached the curriculum, or could not write its files."""


class ServedCurriculum:
    """The port of a curriculum that `curro serve` keeps; errors are raised here as they were there.

    While the service is being started again, calls wait for it. It goes on from its last complete step, and
    the tickets given out before count as dropped: `observe` does not admit their groups, and a warning says
    so once. Several threads may use one client.

    Args:
        address: as `curro serve` prints it: "http://127.0.0.1:8377".
        token: the content of the service's file `token`.
        patience: seconds after which a call without a reply is given up, with a `ConnectionError` or a
            `TimeoutError`.

    Raises:
        ConfigError: another address.
    """

    def __init__(self, address: str, token: str, *, patience: float = 60.0) -> None:
        if not address.startswith("http://"):
            raise ConfigError(f"an address is http://127.0.0.1:PORT, not {address!r:.100}")
        self.address, self.patience = address, patience
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": JSON}
        self._start: int | None = None

    def select(self, n: int, *, step: int, rollouts: int | None = None) -> Draw:
        """`Curriculum.select`."""
        reply = self._post("select", {"n": n, "step": step, "rollouts": rollouts})
        return Draw(**_arrays(reply))

    def observe(
        self, tickets: ArrayLike, rewards: ArrayLike, *, named: Mapping[str, ArrayLike] | None = None
    ) -> Verdict:
        """`Curriculum.observe`; groups whose tickets were dropped at a restart are not admitted."""
        feedback = Feedback.read(tickets, rewards, named)
        parts = {name: _rows(part_PG) for name, part_PG in feedback.named.items()}
        fields = {"tickets": feedback.tickets.tolist(), "rewards": _rows(feedback.rewards), "named": parts}
        verdict = _arrays(self._post("observe", fields))
        # JSON does not say how long the rows of no group are
        shape = feedback.rewards.shape
        return Verdict(
            **{
                name: values.reshape(shape) if name in ("advantages", "credited") else values
                for name, values in verdict.items()
            }
        )

    def drop(self, tickets: ArrayLike) -> None:
        """`Curriculum.drop`."""
        self._post("drop", {"tickets": np.asarray(tickets).tolist()})

    def credit(self, groups: Verdict | Credited) -> np.ndarray:
        """`Curriculum.credit`, of groups of one size."""
        fields = {"advantages": groups.advantages.tolist(), "weights": groups.weights.tolist()}
        return np.array(self._post("credit", fields)["credit"], np.float64).reshape(groups.advantages.shape)

    def save(self, name: str) -> str:
        """Write a checkpoint of this name into the service's folder; returns its path there."""
        return self._post("save", {"name": name})["path"]

    def load(self, name: str) -> None:
        """Go on from that checkpoint; everything in flight is dropped."""
        self._start = None  # the caller knows that tickets are dropped
        self._post("load", {"name": name})

    def metrics(self) -> dict[str, float]:
        """`Curriculum.metrics`."""
        reply = self._ask("GET", "metrics", b"")
        return {name: np.nan if value is None else value for name, value in reply.items()}

    def about(self) -> dict[str, Any]:
        """What is served: the number of `prompts`, their `fingerprint`, the arguments of the `curriculum`."""
        return self._ask("GET", "", b"")

    def check_rows(self, rows: Any, name: str = "the data set") -> None:
        """Refuse rows that are not the served curriculum's prompts in this order, before training.

        A service that was started with a bare number of prompts knows no rows, so that their number alone is
        compared.

        Args:
            rows: with `keys` and `fingerprint`, as `curro.core.identity.DatasetRows` has them.
            name: what the rows are, for the message.

        Raises:
            ConfigError: another number of rows, or another fingerprint.
        """
        about = self.about()
        check_same_rows(about["prompts"], about["fingerprint"], rows, name)

    def _post(self, question: str, fields: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(fields, allow_nan=False).encode()
        reply = self._ask("POST", question, body, secrets.token_hex(16))
        start = reply.pop("start")
        before, self._start = self._start, start
        if before is not None and start != before:
            warnings.warn(
                "the service was started again and goes on from its last complete step: tickets that were "
                "given out before count as dropped",
                UserWarning,
                stacklevel=3,
            )
        return reply

    def _ask(self, method: str, question: str, body: bytes, key: str = "") -> dict[str, Any]:
        """Ask until there is a reply.

        A call is asked again where its reply is lost. A service that lives repeats its reply to the same key.
        One that was killed meanwhile gives a draw out anew, and the tickets of a report come from an
        earlier start, so that they count once at most.
        """
        deadline, pause = time.monotonic() + self.patience, 0.02
        while True:
            host = self.address.removeprefix("http://").rstrip("/")
            connection = HTTPConnection(host, timeout=self.patience)
            try:
                connection.request(method, f"/{question}", body, self._headers | {KEY: key})
                reply = json.loads(connection.getresponse().read())
                break
            except (OSError, HTTPException, ValueError) as error:
                is_late = isinstance(error, TimeoutError)
                if is_late or time.monotonic() + pause > deadline:
                    raise (TimeoutError if is_late else ConnectionError)(
                        f"the service at {self.address} gave no reply for {self.patience:g} seconds "
                        f"({error}): start it again with the same command, and the trainer from its last "
                        "checkpoint"
                    ) from error
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
            finally:
                connection.close()
        if "error" in reply:
            raise error_of(reply["error"]["kind"], reply["error"]["words"])
        return reply


def error_of(kind: str, words: str) -> Exception:
    """An error by the name of its class: one of curro's own, or a `ServiceError`."""
    error = getattr(curro.core.errors, kind, None)
    if isinstance(error, type) and issubclass(error, CurroError):
        return error(words)
    return ServiceError(words)


def _rows(rewards_PG: np.ndarray) -> list[list[float | None]]:
    """Rewards as JSON has them, null for NaN."""
    if np.isinf(rewards_PG).any():
        raise RewardError("a reward is infinite: report finite numbers, or NaN for a rollout without one")
    return [[None if np.isnan(value) else value for value in row] for row in rewards_PG.tolist()]


def _arrays(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A draw's or a verdict's lists as arrays, null as NaN."""
    return {
        name: np.array(value, _DTYPES.get(name, np.float64)) if isinstance(value, list) else value
        for name, value in reply.items()
    }
