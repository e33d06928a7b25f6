"""The process of the service: its token, its socket, its end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from curro.curriculum import Curriculum
from curro.durable import DurableCurriculum
from curro.errors import ConfigError
from curro.serve.application import Service
from curro.serve.written_run import ServedRun


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
