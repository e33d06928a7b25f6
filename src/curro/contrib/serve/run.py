"""The process of the service: its token, its socket, its end."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from curro.contrib.serve.application import Service
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import open_regular, read_toml
from curro.core.policy import refuse_policy
from curro.core.text import did_you_mean
from curro.data import load_prompts
from curro.durable import DurableCurriculum


def serve(
    curriculum: Curriculum,
    folder: Path,
    *,
    port: int,
    path: Path | None,
    say: Callable[[str], None],
    run_folder: Path | None = None,
) -> None:
    """Answer until SIGTERM or Ctrl-C; then take a snapshot.

    Args:
        curriculum: the curriculum before its first step.
        folder: of the service: journal, snapshot, token, checkpoints.
        port: on the loopback interface; 0 takes a free one. Nobody outside this machine reaches it.
        path: of a socket in the file system, in place of a port.
        say: called with the address once requests are answered.
        run_folder: where groups and metrics are written to, for `curro watch`; None for nowhere.

    Raises:
        ConfigError: uvicorn is not installed, or the address is taken.
    """
    try:
        import uvicorn
    except ImportError:
        raise ConfigError("the service needs uvicorn: pip install 'curro[server]'") from None
    durable = DurableCurriculum(curriculum, folder, run_folder=run_folder)
    try:
        with _listening(port, path) as listening:
            address = f"unix:{path}" if path else f"http://127.0.0.1:{listening.getsockname()[1]}"
            app = Service(durable, token_of(folder), {"address": address})
            config = uvicorn.Config(
                app, http=limited_protocol(),
                interface="asgi3", lifespan="off", ws="none", access_log=False, log_level="error",
                server_header=False, date_header=False, proxy_headers=False, timeout_graceful_shutdown=5,
            )  # fmt: skip
            say(f"{curriculum.table.size:,} prompts at {address}; the token is in {folder / 'token'}")
            for number in (signal.SIGINT, signal.SIGTERM):
                # uvicorn ends at a signal, and then sends it once more to the handler of before
                signal.signal(number, lambda *_: None)
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        durable.close()


def token_of(folder: Path) -> str:
    """The token in the folder; made by the first call. Only the owner of the folder may read it."""
    path = folder / "token"
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    except FileExistsError:
        pass
    with open_regular(path) as file:
        token = file.read(1000).decode(errors="replace").strip()
    if not token:
        raise ConfigError(f"{path} is empty: remove it, and the next start makes a token")
    return token


CONNECTIONS = 256
"""How many connections may be open at a time; a further one takes the place of the longest idle one."""

HEAD_SECONDS = 30
"""Seconds within which the head of a request must arrive."""


def limited_protocol() -> type[asyncio.Protocol]:
    """uvicorn's protocol with a cap on connections and a time limit for the head of a request.

    Without them as many half requests as there are file descriptors would stop the service. At the cap an
    idle connection is closed for a new one, so that whoever holds them all open keeps nobody out.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class LimitedProtocol(H11Protocol):
        _limit: asyncio.TimerHandle | None = None
        _waiting_since = 0.0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._begin()
            if len(self.connections) > CONNECTIONS:
                others = [each for each in self.connections if isinstance(each, LimitedProtocol)]
                idle = [each for each in others if each is not self and each._is_idle()]
                closed = min(idle, key=lambda each: each._waiting_since, default=self)
                closed.transport.abort()
                self.connections.discard(closed)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._limit is not None:
                self._limit.cancel()

        def data_received(self, data: bytes) -> None:
            if self._limit is None:
                self._begin()
            super().data_received(data)

        def _begin(self) -> None:
            self._waiting_since = self.loop.time()
            self._limit = self.loop.call_later(HEAD_SECONDS, self._end)

        def _is_idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _end(self) -> None:
            self._limit = None
            if self._is_idle() and not self.transport.is_closing():
                self.transport.close()

    return LimitedProtocol


def _is_free(path: Path) -> bool:
    """Whether a socket may be made here: nothing is there, or the socket of a service that was killed."""
    if not os.path.lexists(path):
        return True
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise ConfigError(f"{path} exists and is no socket: choose another path for the service's socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError as error:
            raise ConfigError(f"the service cannot listen at {path}: {error.strerror or error}") from error
    raise ConfigError(f"another service answers at {path}: choose another path, or end that one")


@contextmanager
def _listening(port: int, path: Path | None) -> Iterator[socket.socket]:
    """A socket that listens; at the end it is closed, and the file of a socket in the file system removed."""
    listener = _listen(port, path)
    identity = os.stat(path) if path is not None else None
    try:
        with listener:
            yield listener
    finally:
        # another service may have taken the place
        if path and identity and os.path.lexists(path) and os.path.samestat(path.lstat(), identity):
            path.unlink()


def _listen(port: int, path: Path | None) -> socket.socket:
    """A socket that listens; connections wait in it until the service has started."""
    if path is not None and not _is_free(path):
        path.unlink()
    # asyncio sends small replies at once (TCP_NODELAY) where a socket says that it is of TCP
    family, protocol = (socket.AF_INET, socket.IPPROTO_TCP) if path is None else (socket.AF_UNIX, 0)
    listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        if path is None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
        else:
            before = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(f"the service cannot listen at {path or port}: {error.strerror}") from error
    return listener


@dataclass(frozen=True)
class ServeSettings:
    """Which curriculum is served, and where it is kept.

    Attributes:
        folder: of the service.
        curriculum: the arguments of `Curriculum`, by name.
        data: the prompts, as `load_prompts` takes them; in their place may stand
        prompts: the number of prompts, where no method looks at them.
        run_folder: where groups and metrics are written to, for `curro watch`.
        prompt_column, answer_column, key_column, split, limit: as `load_prompts` takes them.
    """

    folder: str
    curriculum: dict[str, Any]
    data: str | None = None
    prompts: int | None = None
    run_folder: str | None = None
    prompt_column: str | None = None
    answer_column: str | None = None
    key_column: str | None = None
    split: str = "train"
    limit: int | None = None

    @classmethod
    def read(cls, path: Path) -> ServeSettings:
        """From a TOML file."""
        table = read_toml(path)
        names = [item.name for item in fields(cls)]
        for name in table:
            if name not in names:
                meant = did_you_mean(name, names)
                raise ConfigError(f"{path} has {name!r}{meant}, which is none of {', '.join(names)}")
        if not isinstance(table.get("run_folder", ""), str):
            raise ConfigError(f"{path}: `run_folder` is a path, not {table['run_folder']!r}")
        for name, kind in (("folder", str), ("curriculum", dict)):
            if not isinstance(table.get(name), kind):
                missing = "the table [curriculum]" if kind is dict else "`folder`, the service's folder"
                raise ConfigError(f"{path} lacks {missing}")
        if (table.get("data") is None) == (table.get("prompts") is None):
            raise ConfigError(f"{path} has to say either `data` or `prompts`, the number of prompts")
        return cls(**table)

    def build(self) -> Curriculum:
        """The curriculum, as new.

        Raises:
            ConfigError, DataError: as `Curriculum.from_config` and `load_prompts` do; the selection asks the
                policy.
        """
        curriculum = Curriculum.from_config(self.curriculum, self._prompts())
        refuse_policy(curriculum.selection.policy_use, "`curro serve`")
        return curriculum

    def _prompts(self) -> Any:
        if self.data is None:
            if type(self.prompts) is not int:
                raise ConfigError(f"`prompts` is the number of prompts, not {self.prompts!r}")
            return self.prompts
        return load_prompts(
            self.data,
            prompt_column=self.prompt_column,
            answer_column=self.answer_column,
            key_column=self.key_column,
            split=self.split,
            limit=self.limit,
        )
