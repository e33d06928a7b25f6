"""A curriculum whose calls are written down before they are answered."""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from curro.core import checkpoint
from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError, ConfigError, CurroError, ExhaustedError
from curro.core.policy import Policy, Reply
from curro.core.verdicts import Draw, Verdict
from curro.durable.frames import decode, encode
from curro.durable.journal import Journal
from curro.durable.recorded_run import RecordedRun
from curro.durable.replies import error_of, is_error, pack, unpack
from curro.runs.lock import only_process


def _observe(curriculum: Curriculum, arguments: dict[str, Any]) -> Verdict:
    arguments.pop("sizes", None)  # which is for the run folder
    return curriculum.observe(**arguments)


def _observe_and_select(curriculum: Curriculum, arguments: dict[str, Any]) -> tuple[Verdict, Draw | None]:
    chosen = {name: arguments.pop(name) for name in ("n", "step", "rollouts") if name in arguments}
    verdict = _observe(curriculum, arguments)
    try:
        return verdict, curriculum.select(**chosen)
    except ExhaustedError:
        return verdict, None


CALLS: dict[str, Callable[[Curriculum, dict[str, Any]], Any]] = {
    "select": lambda curriculum, arguments: curriculum.select(**arguments),
    "observe": _observe,
    "observe_and_select": _observe_and_select,
    "drop": lambda curriculum, arguments: curriculum.drop(**arguments),
}
"""The calls that change a curriculum, by name; each takes the arguments of the method of that name.

`observe_and_select` takes those of both, and gives no draw where fewer prompts are free than were asked for.
"""


KEPT = 10_000
"""Clients whose latest reply is kept; beyond that, the one that has been silent longest is forgotten."""

KEPT_BYTES = 1 << 28
"""Total bytes of the replies kept; the latest reply is always kept."""


class _Latest(NamedTuple):
    number: int
    asked: int
    reply: bytes


class LatestReplies:
    """By client, the number of its latest call, a checksum of what it asked, and the reply."""

    def __init__(self) -> None:
        self._of: dict[str, _Latest] = {}
        self._bytes = 0

    def repeated(self, client: str, number: int, asked: bytes) -> bytes | None:
        """The reply, if this is the client's latest call once more; None for a new call."""
        latest = self._of.get(client)
        if latest is None or number > latest.number:
            return None
        if number < latest.number or zlib.crc32(asked) != latest.asked:
            raise ConfigError(
                f"call {number} of the client {client!r:.80} was another one, and its latest is "
                f"{latest.number}: count the calls of a client up, and give each thread a client of its own"
            )
        return latest.reply

    def has(self, client: str, number: int) -> bool:
        """Whether the client's latest call has this number, or a later one."""
        return client in self._of and number <= self._of[client].number

    def keep(self, client: str, number: int, asked: bytes, reply: bytes) -> None:
        """Note the reply to the client's call."""
        if client in self._of:
            self._bytes -= len(self._of.pop(client).reply)
        self._of[client] = _Latest(number, zlib.crc32(asked), reply)
        self._bytes += len(reply)
        while len(self._of) > KEPT or (self._bytes > KEPT_BYTES and len(self._of) > 1):
            self._bytes -= len(self._of.pop(next(iter(self._of))).reply)

    def state_dict(self) -> dict[str, Any]:
        """The replies one after the other, and of each its client, number, checksum and length."""
        rows = [
            [client, latest.number, latest.asked, len(latest.reply)] for client, latest in self._of.items()
        ]
        together = b"".join(latest.reply for latest in self._of.values())
        return {"rows": rows, "replies": np.frombuffer(together, np.uint8)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`."""
        together, start = state["replies"].tobytes(), 0
        self._of, self._bytes = {}, len(together)
        for client, number, asked, length in state["rows"]:
            _check_caller(client, number)
            self._of[client] = _Latest(number, asked, together[start : start + length])
            start += length


def _check_caller(client: Any, number: Any) -> None:
    if not isinstance(client, str) or type(number) is not int:
        raise TypeError(f"the client {client!r:.80} and the call {number!r:.80} are no text and no number")


class RecordedPolicy:
    """Stands between a method and the policy, which may be attached late or again.

    Args:
        load_backbone: gives what `Policy.backbone` gives, the same in every process, because a journal cannot
            hold a model.

    Attributes:
        answers: what the policy answered since `begin`, in order, as values and arrays.
    """

    def __init__(self, load_backbone: Callable[[], tuple[Any, Any]] | None = None) -> None:
        self._load_backbone = load_backbone
        self._policy: Policy | None = None
        self._replayed: deque[Any] | None = None
        self.answers: list[Any] = []

    def attach(self, policy: Policy) -> None:
        """Ask this policy from now on."""
        self._policy = policy

    def begin(self, replayed: Iterable[Any] | None = None) -> None:
        """A call begins; `replayed` are the answers of a call that is replayed, which asks nobody."""
        self._replayed = None if replayed is None else deque(replayed)
        self.answers = []

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """`Policy.answer`."""
        answer = self._ask(
            lambda policy: {
                "replies": [
                    [reply.text, list(reply.prompt_ids), list(reply.completion_ids)]
                    for reply in policy.answer(conversations, max_tokens)
                ]
            }
        )
        return [Reply(text, tuple(asked), tuple(answered)) for text, asked, answered in answer["replies"]]

    def prompt(self, number: int) -> str:
        """`Policy.prompt`."""
        return self._ask(lambda policy: {"text": policy.prompt(number)})["text"]

    def hidden_states(self, prompts: Sequence[int]) -> np.ndarray:
        """`Policy.hidden_states`."""
        return self._ask(lambda policy: {"states": policy.hidden_states(prompts)})["states"]

    def entropies(self, prompts: Sequence[int]) -> np.ndarray:
        """`Policy.entropies`."""
        return self._ask(lambda policy: {"entropies": policy.entropies(prompts)})["entropies"]

    def uncounted_rewards(self, prompts: Sequence[int], samples: int, seed: int) -> np.ndarray:
        """`Policy.uncounted_rewards`."""
        return self._ask(lambda policy: {"rewards": policy.uncounted_rewards(prompts, samples, seed)})[
            "rewards"
        ]

    def backbone(self) -> tuple[Any, Any]:
        """What `load_backbone` gives; refused where there is none."""
        if self._load_backbone is not None:
            return self._load_backbone()
        if self._policy is not None:
            self._policy.backbone()  # a host that cannot give it says why
        raise ConfigError("this method copies the policy's weights, which a journal of calls cannot hold")

    def _ask(self, question: Callable[[Policy], dict[str, Any]]) -> dict[str, Any]:
        if self._replayed is not None:
            if not self._replayed:
                raise CheckpointError("the replayed call asks the policy more than it did when it was made")
            answer = self._replayed.popleft()
        elif self._policy is None:
            raise ConfigError("this method asks the policy, and no host has lent it")
        else:
            try:
                answer = question(self._policy)
            except Exception as error:
                self.answers.append(pack(error))
                raise
        self.answers.append(answer)
        if "error" in answer:
            raise error_of(answer["error"])
        return answer


SNAPSHOT_AFTER = 1 << 24
"""Bytes of calls after which a snapshot is taken; or as many as the latest snapshot has, if that is more."""

_NUMBERED = re.compile(r"(\d{8})\.(snapshot\.npz|journal)")


class DurableCurriculum:
    """A curriculum in a folder; a process that is killed goes on where it was, in the next one.

    The port is deterministic: the same calls in the same order give the same draws. So the folder holds a
    snapshot of the curriculum and a journal of the calls since. A call is carried out, appended to the
    journal and answered, in this order; one that was not answered is repeated by its client under the same
    number. If the journal has it, it gets the reply that was lost, and if not, nothing remembers it. A call
    costs the same for any number of prompts: a snapshot is taken when the journal is as long as the latest
    one.

        00000007.snapshot.npz   the curriculum, and the latest reply to each client
        00000007.journal        the calls since: arguments, what the policy answered, a checksum of the reply

    Several threads may call it: every call waits for the one before.

    Args:
        curriculum: as new; it is brought to where the folder is.
        folder: made if there is none. One process at a time may use it.
        snapshot_after: bytes.
        load_backbone: for methods that copy the policy's weights, as `RecordedPolicy` takes it. With it, the
            methods are attached at once, so that their weights can be restored before the policy is lent.
        run_folder: where groups and metrics are written to, for `curro watch`; None for nowhere.

    Raises:
        CheckpointError: the folder is of another curriculum, or damaged, or its calls give other draws now
            than when they were made, as another version of curro may.
        LockedError: another process uses the folder.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        folder: Path,
        *,
        snapshot_after: int = SNAPSHOT_AFTER,
        load_backbone: Callable[[], tuple[Any, Any]] | None = None,
        run_folder: Path | None = None,
    ) -> None:
        self.curriculum, self.folder = curriculum, folder
        self.run = None if run_folder is None else RecordedRun(curriculum, run_folder)
        self._snapshot_after = snapshot_after
        self._policy, self._has_policy = RecordedPolicy(load_backbone), False
        self._replies = LatestReplies()
        self._lock = RLock()
        self._is_whole = True
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.enter_context(only_process(folder))
            if load_backbone is not None:
                self._attach()
            self._recover()
            opened.callback(lambda: self._journal.close())
            self._opened = opened.pop_all()

    def _recover(self) -> None:
        names = [match for path in self.folder.iterdir() if (match := _NUMBERED.fullmatch(path.name))]
        numbers = [int(match[1]) for match in names if match[2] == "snapshot.npz"]
        self._number = max(numbers, default=0)
        if max((int(match[1]) for match in names), default=0) > self._number:
            raise CheckpointError(
                f"{self.folder} has a journal, and the snapshot from which it goes on is missing: put the "
                "snapshot back, or choose another folder"
            )
        path = self.folder / f"{self._number:08}.journal"
        is_new = not numbers and not (path.exists() and path.stat().st_size)
        state = checkpoint.load_state(self._snapshot) if numbers else {}
        is_resuming = state.get("is_resuming", False)
        self._journal = Journal(path)
        try:
            if state:
                self._restore(state)
            if self.run is not None:
                self.run.begin(state.get("recorder"), is_new=is_new)
                if is_resuming:
                    self.run.resume()
            records = (decode(record) for record in self._journal.replay())
            self._begin(next(records, None))
            for record in records:
                self._again(record)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            self._journal.close()
            if isinstance(error, CurroError):
                raise
            raise CheckpointError(
                f"{self.folder} is damaged: what it has is no call of a curriculum ({error!r:.200})"
            ) from error
        except BaseException:
            self._journal.close()
            raise
        self._remove_all_but(self._number)
        if is_resuming:
            self._write_snapshot()

    @property
    def _snapshot(self) -> Path:
        return self.folder / f"{self._number:08}.snapshot.npz"

    def _begin(self, first: dict[str, Any] | None) -> None:
        """The first record says whose calls these are."""
        here = {"fingerprint": self.curriculum.table.fingerprint, "config": self.curriculum.config}
        if first is None:
            self._journal.append(encode(here))
            return
        self._check_origin(first)

    def _check_origin(self, state: Mapping[str, Any]) -> None:
        """Refuse other rows too, which a checkpoint may have: the calls name prompts by their numbers."""
        try:
            self.curriculum.check_origin(state)
        except CheckpointError as error:
            raise CheckpointError(
                f"{self.folder} is of another data set or configuration, so choose another folder: {error}"
            ) from error

    def _again(self, record: dict[str, Any]) -> None:
        """Carry out a call as it was."""
        if "attached" in record:
            self._attach()
            return
        _check_caller(record["client"], record["number"])
        asked = record["asked"].tobytes()
        call = decode(asked)
        self._policy.begin(record["answers"].values())
        reply = encode(self._perform(call["name"], dict(call["given"])))
        if zlib.crc32(reply) != record["check"]:
            raise CheckpointError(
                f"{self.folder}: call {record['number']} of {record['client']!r:.80} gives something else "
                "now than when it was made: go on with the version of curro that made it"
            )
        self._replies.keep(record["client"], record["number"], asked, reply)
        self._record(call["name"], call["given"], reply)

    def _record(self, name: str, arguments: Mapping[str, Any], reply: bytes) -> None:
        if self.run is not None and not is_error(reply):
            self.run.record(name, arguments, unpack(decode(reply)))

    def attach(self, policy: Policy) -> None:
        """Let methods that ask the policy ask this one; again in every process."""
        with self._lock:
            self._policy.attach(policy)
            if not self._has_policy:
                self._attach()
                self._journal.append(encode({"attached": True}))

    def _attach(self) -> None:
        if not self._has_policy:
            self.curriculum.attach(self._policy)
            self._has_policy = True

    def call(self, client: str, number: int, name: str, arguments: Mapping[str, Any]) -> bytes:
        """Carry out a call once, however often it is repeated.

        Args:
            client: who calls: a name for each thread of each process, any text.
            number: of the call, counted up by the client; a call is repeated under the same number.
            name: one of `CALLS`.
            arguments: arrays and plain values.

        Returns:
            The reply, or the error, as `encode(pack(...))` gives it: `unpack(decode(...))` reads it.

        Raises:
            ConfigError: a number that this client has used for another call.
            CheckpointError: an earlier call could not be written down: open the folder anew.
        """
        asked = encode({"name": name, "given": dict(arguments)})
        with self._lock:
            self._check_whole()
            repeated = self._replies.repeated(client, number, asked)
            if repeated is not None:
                return repeated
            self._is_whole = False
            self._policy.begin()
            reply = encode(self._perform(name, dict(arguments)))
            answers = {str(i): answer for i, answer in enumerate(self._policy.answers)}
            record = {"client": client, "number": number, "asked": np.frombuffer(asked, np.uint8)}
            self._journal.append(encode(record | {"answers": answers, "check": zlib.crc32(reply)}))
            self._replies.keep(client, number, asked, reply)
            self._record(name, arguments, reply)
            self._is_whole = True
            if self._journal.size > max(self._snapshot_after, self._snapshot_size()):
                self.snapshot()
            return reply

    def knows(self, client: str, number: int) -> bool:
        """Whether this call of the client, or a later one, was carried out."""
        with self._lock:
            return self._replies.has(client, number)

    def _perform(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return pack(CALLS[name](self.curriculum, arguments))
        except CheckpointError:
            raise
        except Exception as error:
            if not isinstance(error, CurroError):
                logging.getLogger(__name__).exception("the call %r of the curriculum failed", name)
            return pack(error)

    def _check_whole(self) -> None:
        if not self._is_whole:
            raise CheckpointError(
                f"a call could not be written to {self.folder}, so the curriculum is ahead of it: open the "
                "folder anew"
            )

    def _snapshot_size(self) -> int:
        return self._snapshot.stat().st_size if self._number else 0

    def load(self, path: str | os.PathLike[str], *, kept: ArrayLike = ()) -> None:
        """Go on from what `Curriculum.save` wrote; tickets in flight that are not in `kept` are dropped.

        Raises:
            CheckpointError: as `Curriculum.load` does; then the curriculum goes on as it was.
        """
        with self._lock:
            self._check_whole()
            state, before = checkpoint.load_state(path), self.curriculum.state_dict()
            self._is_whole = False
            try:
                self.curriculum.load_state_dict(state)
            except CheckpointError:
                self.curriculum.load_state_dict(before)
                self._is_whole = True
                raise
            tickets = self.curriculum.ledger.tickets
            self.curriculum.drop(tickets[~np.isin(tickets, np.asarray(kept, np.int64))])
            if self.run is not None:
                # written first, because what was there before needs the lines that are now taken back
                self._write_snapshot(is_resuming=True)
                self.run.resume()
            self._write_snapshot()
            self._is_whole = True

    def snapshot(self) -> None:
        """Write the curriculum, and begin a journal anew; an interrupted snapshot changes nothing."""
        with self._lock:
            self._check_whole()
            self._write_snapshot()

    def _write_snapshot(self, *, is_resuming: bool = False) -> None:
        """With `is_resuming` the run folder has later lines, which whoever opens it next takes back."""
        self._number += 1
        try:
            checkpoint.save_state(self._snapshot, self._state() | {"is_resuming": is_resuming})
        except BaseException:
            self._number -= 1
            raise
        self._journal.close()
        self._journal = Journal(self.folder / f"{self._number:08}.journal")
        self._begin(next(map(decode, self._journal.replay()), None))
        self._remove_all_but(self._number)

    def _state(self) -> dict[str, Any]:
        state = {
            "curriculum": self.curriculum.state_dict(),
            "has_policy": self._has_policy,
            "replies": self._replies.state_dict(),
        }
        return state if self.run is None else state | {"recorder": self.run.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        if state["has_policy"]:
            self._attach()
        self._check_origin(state["curriculum"])
        self.curriculum.load_state_dict(state["curriculum"])
        self._replies.load_state_dict(state["replies"])

    def _remove_all_but(self, number: int) -> None:
        for path in self.folder.glob("[0-9]" * 8 + ".*"):
            if not path.name.startswith(f"{number:08}."):
                path.unlink()

    def close(self) -> None:
        """End the step of the run folder and take a snapshot, so that the next process replays nothing."""
        with self._lock, self._opened:
            if self._is_whole:
                if self.run is not None:
                    self.run.end_step()
                self.snapshot()
