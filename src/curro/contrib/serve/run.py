"""The process of the service: its socket, its token, its end."""

from __future__ import annotations

import os
import re
import secrets
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from curro.contrib.loopback import HOST, LoopbackHandler, LoopbackServer
from curro.contrib.serve.application import LARGEST_JSON, Refused, Service, error_body
from curro.contrib.serve.client import JSON, KEY
from curro.contrib.serve.saved import SavedCurriculum
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError


def serve(curriculum: Curriculum, folder: Path, *, port: int, say: Callable[[str], None]) -> None:
    """Answer until SIGTERM or Ctrl-C; then write the state.

    Args:
        curriculum: the curriculum before its first step.
        folder: holds the service's state, token and checkpoints.
        port: on the loopback interface; 0 takes a free one. Only this machine reaches it.
        say: called with the address once requests are answered.

    Raises:
        ConfigError: the address is taken, or the token in the folder may be known to others.
    """
    saved = SavedCurriculum(curriculum, folder)
    try:
        with CurriculumServer(port, Service(saved, token_of(folder))) as server:
            address = f"http://{HOST}:{server.port}"
            for number in (signal.SIGINT, signal.SIGTERM):
                # `shutdown` waits for the loop, which runs in this thread
                signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
            say(f"{curriculum.table.size:,} prompts at {address}; the token is in {folder / 'token'}")
            server.serve_forever(poll_interval=0.1)
    finally:
        saved.close()


def token_of(folder: Path) -> str:
    """The token in the folder; made by the first call.

    Raises:
        ConfigError: it may be known to others: it is a link, or not a file that this user alone may read.
    """
    path = folder / "token"
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    except FileExistsError:
        pass
    remedy = "remove it, and the next start makes a token"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(f"{path} is a link, or cannot be read ({error.strerror}): {remedy}") from error
    try:
        status = os.fstat(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if not is_own or stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigError(f"{path} is not a file of yours that you alone may read: {remedy}")
        token = os.read(descriptor, 1000).decode(errors="replace").strip()
    finally:
        os.close(descriptor)
    if not re.fullmatch("[!-~]+", token):  # what a header can carry
        raise ConfigError(f"{path} holds no token, which is one word of ASCII: {remedy}")
    return token


class Handler(LoopbackHandler):
    """One request: its token is checked before its body is read, and the connection is closed after it."""

    server: CurriculumServer

    def _respond(self) -> None:
        try:
            self.server.service.check_token(self.headers.get("Authorization", ""))
            self.server.trust(self.connection)
            body = self.rfile.read(self._length())
            form = self.headers.get("Content-Type", JSON).partition(";")[0].strip()
            key = self.headers.get(KEY, "")[:100]
            status, reply = self.server.service.answer(self.command, self.path, body, form, key)
        except Refused as refusal:
            status, reply = refusal.status, error_body(refusal)
        self.reply(status, reply, JSON, {"Connection": "close"})

    do_GET = do_POST = _respond

    def _length(self) -> int:
        """How long the body is.

        A body without a length would be read until the connection ends.
        """
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isascii() or not length.isdigit():
            raise Refused(411, "the request has to say how long its body is: Content-Length")
        if len(length) > 12 or int(length) > LARGEST_JSON:
            raise Refused(413, f"a body has at most {LARGEST_JSON} bytes: ask in several calls")
        return int(length)


class CurriculumServer(LoopbackServer):
    """Answers for a service.

    Raises:
        ConfigError: the port is taken.
    """

    def __init__(self, port: int, service: Service) -> None:
        try:
            super().__init__(port, Handler)
        except OSError as error:
            raise ConfigError(f"the service cannot listen at {port}: {error.strerror}") from error
        self.service = service

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a connection that breaks is the client's affair."""
