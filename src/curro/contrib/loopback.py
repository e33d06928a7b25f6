"""A server on the loopback interface, which every user of the machine reaches."""

from __future__ import annotations

import contextlib
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"

STRANGERS = 256
"""How many connections that have not shown the secret may be open; a further one ends the oldest."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers requests and logs none: whoever reaches the port could fill a disk."""

    server_version, sys_version = "curro", ""
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # with 0.9 a malformed request would get no status
    timeout = 60  # seconds that a connection may send nothing
    # the head and the body go out together: apart, the second would wait for an acknowledgement
    wbufsize = -1

    def reply(self, status: int, body: bytes, kind: str, headers: Mapping[str, str]) -> None:
        """Send a body of this content type."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    log_message: Callable[..., None] = lambda self, *_: None


class LoopbackServer(ThreadingHTTPServer):
    """Answers each connection in a thread; a user without the secret takes neither threads nor files.

    Args:
        port: 0 takes a free one.
        handler: calls `trust` with its connection once that has shown the secret.

    Raises:
        OSError: the port is taken.
    """

    request_queue_size = 128

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._strangers: OrderedDict[socket.socket, None] = OrderedDict()
        super().__init__((HOST, port), handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer; too many strangers are too many threads and files of this user's."""
        self._strangers[request] = None
        if len(self._strangers) > STRANGERS:
            with contextlib.suppress(KeyError, OSError):  # the others, or this one, have ended meanwhile
                oldest, _ = self._strangers.popitem(last=False)
                oldest.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it
        super().process_request(request, client_address)

    def trust(self, connection: socket.socket) -> None:
        """Let no stranger end this connection."""
        self._strangers.pop(connection, None)

    def shutdown_request(self, request: Any) -> None:
        self.trust(request)
        super().shutdown_request(request)
