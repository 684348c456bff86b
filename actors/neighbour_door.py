"""An actor's door for processes on its own node: a Unix socket beside Ray's way of calling, which takes longer than to match one event, and
for a batch costs every process some work for every column.

Whoever comes must prove to know the key before anything it sends is unpacked. Whatever goes wrong here is answered with nothing or with the
end of the connection: who asked asks through Ray then, and finds out there.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from pathlib import Path
from typing import Any

from actors.neighbour_connection import LARGEST_QUESTION, NeighbourAddress, NeighbourConnection
from actors.packing import unpacked_apart

__all__ = ["NO_ANSWER", "NeighbourDoor"]

logger = logging.getLogger(__name__)

NO_ANSWER = b""
INSIDE = 512
"""Connections at a time; each has a thread."""
SECONDS = 5.0
TAKING = 60.0
PAUSE = 0.1
NAME = "door"
LONGEST_PATH = 100
"""Of a socket, in bytes; some systems allow a few more."""


class NeighbourDoor:
    """Open from the beginning. `answer` gets the arguments of a question and gives the parts of the answer; several threads call it.

    `seconds`: for each message of the proof. `taking`: seconds in which who has asked must take some of the answer; it may first wait for
    others, or be busy with an earlier one. Later it has to ask again. `most_bytes`: of all questions that are read or being answered; what
    is larger alone is read alone. `folder`: where the socket is to be, if its path is short enough. Raises OSError if there is no place for
    it anywhere.
    """

    def __init__(
        self,
        answer: Callable[..., Sequence[Any]],
        node: str,
        folder: str | None = None,
        seconds: float = SECONDS,
        taking: float = TAKING,
        most_bytes: int | None = None,
    ) -> None:
        self._answer, self._seconds, self._taking = answer, seconds, taking
        self._most_bytes, self._bytes = most_bytes, 0
        self._process = os.getpid()
        self._folder = _private_folder(folder)
        self.address = NeighbourAddress(node, f"{self._folder}/{NAME}", secrets.token_bytes(32))
        self._lock = threading.Lock()
        self._inside: set[NeighbourConnection] = set()
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(self.address.path)
            Path(self.address.path).chmod(0o600)
            self._socket.listen()
        except OSError:
            self.close()
            raise
        threading.Thread(target=self._let_in, name="neighbour-door", daemon=True).start()

    def close(self) -> None:
        """Nobody is answered any more. May be called again; a process that was forked off leaves it open."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._closed.set()
            inside = list(self._inside)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        for connection in inside:
            connection.hang_up()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _let_in(self) -> None:
        while not self._closed.is_set():
            try:
                visitor, _ = self._socket.accept()
            except OSError as error:
                if not self._closed.wait(PAUSE):  # there are too many open files, mostly; that passes
                    logger.warning("nobody was let in: %s", error)
                continue
            try:
                self._serve(visitor)
            except Exception:  # whoever it was: the next one is let in
                logger.exception("a visitor was not let in")
                visitor.close()

    def _serve(self, visitor: socket.socket) -> None:
        connection = NeighbourConnection(visitor, self._seconds)
        with self._lock:
            if self._closed.is_set() or len(self._inside) >= INSIDE:
                connection.close()
                return
            self._inside.add(connection)
        try:
            threading.Thread(target=self._talk, args=(connection,), name="neighbour", daemon=True).start()
        except RuntimeError:  # no more threads
            self._inside.discard(connection)
            raise

    def _talk(self, connection: NeighbourConnection) -> None:
        """The proof is here and not in `_let_in`: one who comes and says nothing keeps nobody else waiting."""
        try:
            connection.admit(self.address.key)
            connection.seconds = self._taking
            while True:
                answer = self._answered_within(connection, connection.announced(None))
                connection.send(*answer)
                del answer  # while nobody asks, nothing is kept
        except EOFError:
            pass
        except AuthenticationError:
            logger.warning("refused one who does not know the key")
        except Exception as error:
            logger.info("a neighbour's connection ended: %r", error)
        finally:
            with self._lock:
                self._inside.discard(connection)
            connection.close()

    def _answered_within(self, connection: NeighbourConnection, lengths: list[int]) -> Sequence[Any]:
        """If there is room for the question, of which nothing is read before. Through Ray it waits outside of this process."""
        size = sum(lengths)
        with self._lock:
            most = LARGEST_QUESTION if self._most_bytes is None or not self._bytes else self._most_bytes - self._bytes
            if size > min(most, LARGEST_QUESTION):
                raise OSError(f"a question of {size:,} bytes, and no room for it")
            self._bytes += size
        try:
            return self._answered(connection.parts(lengths))
        finally:
            with self._lock:
                self._bytes -= size

    def _answered(self, question: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._answer(*unpacked_apart(question))
        except Exception as error:  # asked again through Ray, it raises the same there
            logger.debug("no answer for a neighbour: %r", error)
            return (NO_ANSWER,)


def _private_folder(parent: str | None) -> str:
    """A new one that only this user may enter; elsewhere among temporary files if it cannot be in `parent`."""
    if parent is not None and len(os.fsencode(parent)) + len("/pubsub-12345678/") + len(NAME) <= LONGEST_PATH:
        with suppress(OSError):
            return tempfile.mkdtemp(prefix="pubsub-", dir=parent)
    return tempfile.mkdtemp(prefix="pubsub-")
