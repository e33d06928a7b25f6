"""The process of the service: its token, its socket, its end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from curro.curriculum import Curriculum
from curro.data import load_prompts
from curro.durable import DurableCurriculum
from curro.errors import ConfigError
from curro.policy import refuse_policy
from curro.serve.application import ServedRun, Service
from curro.storage.files import read_toml


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
        curriculum: as new.
        folder: of the service: journal, snapshot, token, checkpoints.
        port: on the loopback interface; 0 takes a free one. Nobody outside this machine reaches it.
        path: of a socket in the file system, in place of a port.
        say: is told the address, once requests are answered.
        run_folder: where groups and metrics are written to, for `curro watch`; None for nowhere.

    Raises:
        ConfigError: uvicorn is not installed, or the address is taken.
    """
    try:
        import uvicorn
    except ImportError:
        raise ConfigError("the service needs uvicorn: pip install 'curro[server]'") from None
    durable = DurableCurriculum(curriculum, folder)
    try:
        run = None if run_folder is None else ServedRun(durable.curriculum, run_folder)
        with _listening(port, path) as listening:
            address = f"unix:{path}" if path else f"http://127.0.0.1:{listening.getsockname()[1]}"
            app = Service(durable, token_of(folder), {"address": address}, run)
            config = uvicorn.Config(
                app, interface="asgi3", lifespan="off", ws="none", access_log=False, log_level="warning",
                server_header=False, date_header=False, proxy_headers=False, timeout_graceful_shutdown=5,
            )  # fmt: skip
            say(f"{curriculum.table.size:,} prompts at {address}; the token is in {folder / 'token'}")
            for number in (signal.SIGINT, signal.SIGTERM):
                # uvicorn ends at a signal, and then sends it once more to the handler of before
                signal.signal(number, lambda *_: None)
            uvicorn.Server(config).run(sockets=[listening])
            if run is not None:
                run.end_step()
    finally:
        durable.close()
        if path is not None:
            path.unlink(missing_ok=True)


def token_of(folder: Path) -> str:
    """The token in the folder; made by the first call. Only the owner of the folder may read it."""
    path = folder / "token"
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    except FileExistsError:
        pass
    if not (token := path.read_text().strip()):
        raise ConfigError(f"{path} is empty: remove it, and the next start makes a token")
    return token


def _listening(port: int, path: Path | None) -> socket.socket:
    """A socket that listens; connections wait in it until the service has started."""
    # asyncio sends small replies at once (TCP_NODELAY) where a socket says that it is of TCP
    family, protocol = (socket.AF_INET, socket.IPPROTO_TCP) if path is None else (socket.AF_UNIX, 0)
    made = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        if path is None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", port))
        else:
            path.unlink(missing_ok=True)  # of a service that was killed: the folder's lock keeps others out
            before = os.umask(0o177)
            try:
                made.bind(str(path))
            finally:
                os.umask(before)
        made.listen(128)
    except OSError as error:
        made.close()
        raise ConfigError(f"the service cannot listen at {path or port}: {error.strerror}") from error
    return made


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
        """From a TOML file.

        Raises:
            ConfigError: no such file, no TOML, a key that is unknown or missing.
        """
        table = read_toml(path)
        known = [item.name for item in fields(cls)]
        for name in table:
            if name not in known:
                raise ConfigError(f"{path} has {name!r}, which is none of {', '.join(known)}")
        if not isinstance(table.get("run_folder", ""), str):
            raise ConfigError(f"{path}: `run_folder` is a path, not {table['run_folder']!r}")
        for name, kind in (("folder", str), ("curriculum", dict)):
            if not isinstance(table.get(name), kind):
                what = "the table [curriculum]" if kind is dict else "`folder`, the service's folder"
                raise ConfigError(f"{path} lacks {what}")
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
        refuse_policy(curriculum.selection.needs_policy, "`curro serve`")
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
