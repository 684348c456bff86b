"""Many callers, one transaction: what waits while a group is being written is the next group.

Nobody waits for a timer. Alone, a caller has its change written at once; the more callers there are, the larger the groups get by
themselves, and the disk is waited for once per group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from ray_pubsub.errors import FencedError, OverloadedError, SettingError, StoreError

__all__ = ["GroupCommitter"]

Item = TypeVar("Item")
Result = TypeVar("Result")

RETRY_AFTER = 0.1
FOR_ALL = (StoreError, FencedError)
"""Errors that are nobody's fault: the store's. Trying the items one by one would not help."""


class GroupCommitter(Generic[Item, Result]):
    """Collects items and has them performed in groups by a thread of its own.

    `perform` gets a group and returns for each item its result, or the exception that its caller shall get. If it raises instead, nothing
    of the group was done; then, unless the store itself has failed, the items are performed one by one, so that only the bad one fails.
    """

    def __init__(
        self,
        perform: Callable[[list[Item]], Sequence[Result | BaseException]],
        *,
        most_waiting: int = 10_000,
        largest_group: int = 1_000,
        name: str = "group-commit",
    ) -> None:
        for setting, value in (("most_waiting", most_waiting), ("largest_group", largest_group)):
            if not isinstance(value, int) or value < 1:
                raise SettingError(setting, f"must be a whole number of at least 1, not {value!r}")
        self._perform = perform
        self._most_waiting, self._largest_group = most_waiting, largest_group
        self._waiting: deque[tuple[Item, Future[Result]]] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __enter__(self) -> GroupCommitter[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, item: Item) -> Future[Result]:
        """A future of the item's result. Raises OverloadedError, at once, if too many are waiting."""
        return self.submit_many([item])[0]

    def submit_many(self, items: Sequence[Item]) -> list[Future[Result]]:
        """The same for several, of which all are taken or none."""
        futures: list[Future[Result]] = [Future() for _ in items]
        with self._change:
            if self._closed:
                raise SettingError("group commit", "is closed; nothing more is taken")
            if len(self._waiting) + len(items) > self._most_waiting:
                raise OverloadedError("changes", len(self._waiting), RETRY_AFTER)
            self._waiting.extend(zip(items, futures, strict=True))
            self._change.notify()
        return futures

    def commit(self, item: Item, timeout: float | None = None) -> Result:
        """The item's result, when it is there; raises its exception. After `timeout` seconds raises TimeoutError: the item may still be
        done then, unless it had not begun."""
        future = self.submit(item)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Takes nothing more; returns when all that was taken is done."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._largest_group))]
            # Whoever has given up meanwhile is left out; from here on, nobody can.
            group = [(item, future) for item, future in taken if future.set_running_or_notify_cancel()]
            if group:
                self._write(group)

    def _write(self, group: list[tuple[Item, Future[Result]]]) -> None:
        try:
            results = list(self._perform([item for item, _ in group]))
        except BaseException as error:
            if len(group) == 1 or isinstance(error, FOR_ALL):
                for _, future in group:
                    future.set_exception(error)
            else:
                for one in group:
                    self._write([one])
            return
        if len(results) != len(group):  # they were done, so they are not done again
            results = [RuntimeError(f"{len(results)} results for {len(group)} items")] * len(group)
        for (_, future), result in zip(group, results, strict=True):
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
