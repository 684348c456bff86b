"""Connections to the doors of other actors on this node: a coordinator's to shards, a publisher's to coordinators.

For when all is well: a link gives an answer or none, and who gets none asks through Ray, where restarts, deaths and replaced instances are
told apart. No publication waits until a link is made: that is done aside, while questions go through Ray.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.neighbour_connection import LARGEST_QUESTION, MOST_PARTS, NeighbourAddress, NeighbourConnection
from actors.neighbour_door import NO_ANSWER
from actors.packing import packed, packed_apart

__all__ = ["Asked", "NeighbourLinks"]

logger = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds for an answer. Who has none by then asks through Ray."""
PAUSE = 0.5
"""Seconds without links to an actor after one has failed."""
FAR_PAUSE = 10.0
"""The same if it is on another node, or has no door."""


class Link(NamedTuple):
    number: int
    address: NeighbourAddress
    connection: NeighbourConnection


@dataclass(slots=True, eq=False)
class LinksToOne:
    address: NeighbourAddress | None = None
    idle: list[Link] = field(default_factory=list)
    links: int = 0
    """Idle or in use."""
    opening: bool = False
    not_before: float = 0.0


class NeighbourLinks:
    """Safe to use from several threads. `find` asks an actor for its address, through Ray; it may take long, and may raise anything. `who`
    they are, for the log; each has a number.

    There are at most `most` links to one of them. `aside` does something in another thread. A process that was forked off has none: it
    would read what was answered to the other.
    """

    def __init__(
        self,
        find: Callable[[int], NeighbourAddress | None],
        node: str,
        most: int,
        who: str = "shard",
        aside: Callable[[Callable[[], None]], None] | None = None,
        patience: float = PATIENCE,
        pause: float = PAUSE,
    ) -> None:
        self._find, self._node, self._most, self._who = find, node, most, who
        self._aside = _in_a_thread if aside is None else aside
        self._patience, self._pause = patience, pause
        # One that may be taken again: garbage is collected at any time, and what nobody has any more is closed then.
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._others: dict[int, LinksToOne] = {}
        self._closed = False
        self.answered = 0
        """Questions that were answered by a link."""

    def ask(self, number: int, *question: Any, patience: float | None = None) -> Asked | None:
        """Sends a question to be answered at once. None if there is no link to this one, or none yet. `patience`: there are columns in the
        question or in the answer, and so many seconds for both."""
        link = self._take(number)
        if link is None:
            return None
        asked = Asked(self, link, time.monotonic() + (self._patience if patience is None else patience))
        try:
            try:
                message = [packed(question)] if patience is None else packed_apart(question)
            except Exception:  # Ray packs what pickle cannot
                message = None
            if message is None or not _fits(message):
                asked.unasked()
                return None
            link.connection.send(*message)
        except OSError as error:
            asked.fail(error)
            return None
        except BaseException:  # it was interrupted
            asked.give_up()
            raise
        return asked

    def forget(self, number: int) -> None:
        """Whoever is at its address is not to be asked any more. After a pause the address is asked for anew."""
        with self._lock:
            state = self._state(number)
            state.address, state.not_before = None, time.monotonic() + self._pause
            idle, state.idle = state.idle, []
            state.links -= len(idle)
        for link in idle:
            link.connection.close()

    def close(self) -> None:
        if not self.own():
            return  # whoever has the lock may not be here
        with self._lock:
            self._closed = True
            others = list(self._others)
        for number in others:
            self.forget(number)

    def _state(self, number: int) -> LinksToOne:
        found = self._others.get(number)
        if found is None:
            found = self._others[number] = LinksToOne()
        return found

    def _take(self, number: int) -> Link | None:
        """The one used last: the others may have been closed meanwhile. If there is none, one is made for the next time."""
        if not self.own():
            return None
        with self._lock:
            state = self._state(number)
            if state.idle:
                return state.idle.pop()
            if self._closed or state.opening or state.links >= self._most or time.monotonic() < state.not_before:
                return None
            state.opening = True
        try:
            self._aside(lambda: self._open(number, state))
        except RuntimeError:  # no more threads
            state.opening = False
        return None

    def _open(self, number: int, state: LinksToOne) -> None:
        pause = self._pause
        try:
            address = state.address or self._find(number)
            if address is None or address.node != self._node:
                pause = FAR_PAUSE
                return
            link = Link(number, address, NeighbourConnection.to(address, self._patience))
            with self._lock:
                if not self._closed:
                    state.address, pause = address, 0.0
                    state.links += 1
                    state.idle.append(link)
                    return
            link.connection.close()
        except Exception as error:
            state.address = None
            logger.info("no link to %s %d: %r", self._who, number, error)
        finally:
            state.not_before = max(state.not_before, time.monotonic() + pause) if pause else 0.0
            state.opening = False

    def _give_back(self, link: Link, answered: bool) -> None:
        with self._lock:
            self.answered += answered
            state = self._state(link.number)
            if state.address is link.address and not self._closed:
                state.idle.append(link)
                return
            state.links -= 1
        link.connection.close()

    def _drop(self, link: Link) -> bool:
        """Whether it led to where this one is now."""
        with self._lock:
            state = self._state(link.number)
            state.links -= 1
            current = state.address is link.address
        link.connection.close()
        return current

    def _failed(self, link: Link, error: object) -> None:
        logger.info("a link to %s %d failed: %r", self._who, link.number, error)
        if self._drop(link):
            self.forget(link.number)

    def own(self) -> bool:
        """Whether this process has made them."""
        return self._process == os.getpid()


class Asked:
    """A question on its way. It must come to an end, by one of these: the connection is good again only when its answer has come."""

    def __init__(self, links: NeighbourLinks, link: Link, until: float) -> None:
        self._links, self._until = links, until
        self._link: Link | None = link

    def answer(self, timeout: float) -> list[Any] | None:
        """The parts of the answer, if it comes within so many seconds and within this link's patience; else None."""
        link = self._link
        if link is None or not self._links.own():
            return None
        try:
            found = link.connection.receive(min(timeout, self._until - time.monotonic()))
        except (OSError, EOFError) as error:
            self.fail(error)
            return None
        except BaseException:  # it was interrupted, or there is no memory for it
            self.give_up()
            raise
        if found[0] == NO_ANSWER:
            self.fail("it had no answer")
            return None
        self._link = None
        self._links._give_back(link, answered=True)
        return found

    def unasked(self) -> None:
        """It was not sent."""
        link, self._link = self._link, None
        if link is not None:
            self._links._give_back(link, answered=False)

    def give_up(self) -> None:
        """Nobody waits for it: an answer that comes yet is not taken. May be called when all is over."""
        link, self._link = self._link, None
        if link is not None:
            self._links._drop(link)

    def fail(self, reason: object) -> None:
        """The same; and the other links to where it was asked are not trusted either."""
        link, self._link = self._link, None
        if link is not None:
            self._links._failed(link, reason)


def _fits(message: list[Any]) -> bool:
    return len(message) <= MOST_PARTS and sum(memoryview(part).nbytes for part in message) <= LARGEST_QUESTION


def _in_a_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, name="neighbour-link", daemon=True).start()
