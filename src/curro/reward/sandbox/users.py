"""Users for the programs of root, each its own as long as it runs: the kernel counts processes by user."""

from __future__ import annotations

import os
import socket

from curro.errors import ConfigError

_NUMBERS = range(60706, 61184)
"""Numbers of users that no distribution gives out."""


class LentUser:
    """A user that no other program on this machine has meanwhile; `number` 0: the program stays who it is.

    Whoever has bound the socket of a user's name has the user, and the kernel frees the name with the last
    process that holds the socket, however that ends. The names are in no file system; containers with a
    network of their own have names of their own.

    Raises:
        ConfigError: all users are lent.
    """

    def __init__(self) -> None:
        self.number, self._socket = 0, socket.socket(socket.AF_UNIX)
        if os.getuid():
            return
        first = 17 * os.getpid()  # so that processes that start one after the other seldom try the same ones
        for i in range(len(_NUMBERS)):
            number = _NUMBERS[(first + i) % len(_NUMBERS)]
            try:
                self._socket.bind(f"\0curro-user-{number}")
            except OSError:
                continue
            self.number = number
            return
        self._socket.close()
        raise ConfigError(f"{len(_NUMBERS)} programs run on this machine: run fewer at a time (workers)")

    def give_back(self) -> None:
        """Let another program have the user."""
        self._socket.close()
