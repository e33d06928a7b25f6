"""A curriculum that another process keeps, asked as if it were here."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curro.core.errors import ConfigError
from curro.core.groups import Feedback
from curro.core.verdicts import Credited, Draw, Verdict
from curro.durable import unpack
from curro.durable.frames import decode, encode

FRAME = "application/vnd.curro.frame"
"""The content type of bodies that are frames of arrays (`curro.durable.frames`)."""


class _SocketConnection(HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ServedCurriculum:
    """The port of a curriculum that `curro serve` keeps; errors are raised here as they were there.

    A call that gets no reply, as where the service is being started again, is repeated under the same number,
    and counts once. One thread may use it; others make a client of their own.

    Args:
        address: as `curro serve` prints it: "http://127.0.0.1:8377" or "unix:/path/of/socket".
        token: the content of the service's file `token`.
        patience: seconds after which a call without a reply is given up.

    Raises:
        ConfigError: an address that is neither.
    """

    def __init__(self, address: str, token: str, *, patience: float = 60.0) -> None:
        if address.startswith("unix:"):
            self._connection: HTTPConnection = _SocketConnection(address.removeprefix("unix:"), patience)
        elif address.startswith("http://"):
            self._connection = HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=patience)
        else:
            raise ConfigError(f"an address is http://127.0.0.1:PORT or unix:PATH, not {address!r:.100}")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": FRAME}
        self.patience = patience
        self.client, self.calls = uuid.uuid4().hex, 0

    def select(self, n: int, *, step: int, rollouts: int | None = None) -> Draw:
        """`Curriculum.select`."""
        return self._change("select", {"n": n, "step": step, "rollouts": rollouts})

    def observe(
        self,
        tickets: ArrayLike,
        rewards: ArrayLike,
        *,
        named: Mapping[str, ArrayLike] | None = None,
    ) -> Verdict:
        """`Curriculum.observe`."""
        feedback = Feedback.read(tickets, rewards, named)
        return self._change("observe", vars(feedback))

    def observe_and_select(
        self,
        tickets: ArrayLike,
        rewards: ArrayLike,
        *,
        n: int,
        step: int,
        rollouts: int | None = None,
        named: Mapping[str, ArrayLike] | None = None,
    ) -> tuple[Verdict, Draw | None]:
        """`Curriculum.observe`, then `Curriculum.select`, in one request, which costs less than two.

        The draw is None where fewer than `n` prompts are free. Another error of the select is raised, and the
        groups count as observed all the same.
        """
        feedback = Feedback.read(tickets, rewards, named)
        choice = {"n": n, "step": step, "rollouts": rollouts}
        return self._change("observe_and_select", vars(feedback) | choice)

    def drop(self, tickets: ArrayLike) -> None:
        """`Curriculum.drop`."""
        self._change("drop", {"tickets": np.asarray(tickets)})

    def credit(self, groups: Credited) -> np.ndarray:
        """`Curriculum.credit`, of groups of one size."""
        return self._post("credit", {"advantages": groups.advantages, "weights": groups.weights})["credit"]

    def save(self, name: str) -> str:
        """Write a checkpoint of this name into the service's folder; returns its path there."""
        return self._post("save", {"name": name})["path"]

    def load(self, name: str, *, kept: Sequence[int] = ()) -> None:
        """Go on from that checkpoint; tickets in flight that are not in `kept` are dropped."""
        self._post("load", {"name": name, "kept": np.asarray(kept, np.int64)})

    def metrics(self) -> dict[str, float]:
        """`Curriculum.metrics`."""
        return self._ask("GET", "metrics", b"")

    def about(self) -> dict[str, Any]:
        """What is served: the number of `prompts`, their `fingerprint`, the arguments of the `curriculum`."""
        return self._ask("GET", "", b"")

    def check_rows(self, rows: Any, name: str = "the data set") -> None:
        """Refuse rows that are not the served curriculum's prompts in this order, before training.

        A service that was started with a bare number of prompts knows no rows, so that their number alone is
        compared.

        Args:
            rows: with `keys` and `fingerprint`, as `curro.core.identity.DatasetRows` has them.
            name: of the rows, for the message.

        Raises:
            ConfigError: another number of rows, or another fingerprint.
        """
        from curro.core.identity import check_same_rows

        about = self.about()
        check_same_rows(about["prompts"], about["fingerprint"], rows, name)

    def close(self) -> None:
        """Close the connection; the next call opens one."""
        self._connection.close()

    def _change(self, question: str, fields: dict[str, Any]) -> Any:
        self.calls += 1
        return unpack(self._post(question, {"client": self.client, "call": self.calls, **fields}))

    def _post(self, question: str, fields: dict[str, Any]) -> dict[str, Any]:
        return self._ask("POST", question, encode(fields))

    def _ask(self, method: str, question: str, body: bytes) -> dict[str, Any]:
        deadline, pause = time.monotonic() + self.patience, 0.02
        while True:
            try:
                self._connection.request(method, f"/{question}", body, self._headers)
                reply = decode(self._connection.getresponse().read())
                if "error" in reply:
                    unpack(reply)
                return reply
            except (OSError, HTTPException):
                self._connection.close()
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
