"""Group commit: the changes of many callers in one transaction. Changes that arrive while a group is being written form the next group.

There is no timer. A single caller's change is written at once; with more callers the groups grow by themselves, and a group shares the wait
for the disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from ray_pubsub.errors import FencedError, OverloadedError, StoreError, UnavailableError

__all__ = ["GroupCommitter"]

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_WAITING = 10_000
LARGEST_GROUP = 1_000
RETRY_AFTER = 0.1
FOR_ALL = (StoreError, UnavailableError, FencedError)
"""Errors of the store that no item has caused. Performing the items one by one would not help."""


class GroupCommitter(Generic[Item, Result]):
    """Collects items and performs them in groups, in a thread of its own.

    `perform` gets a group and returns for each item its result, or the exception that its caller shall get. If it raises instead, nothing
    of the group was done; then, unless the store itself has failed, the items are performed one by one, so that only the bad one fails.
    """

    def __init__(self, perform: Callable[[list[Item]], Sequence[Result | BaseException]], name: str) -> None:
        self._perform = perform
        self._waiting: deque[tuple[Item, Future[Result]]] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, item: Item) -> Future[Result]:
        """Returns a future of the item's result. Raises OverloadedError at once if too many items are waiting, and StoreError after
        `close`."""
        return self.submit_many([item])[0]

    def submit_many(self, items: Sequence[Item]) -> list[Future[Result]]:
        """Does the same for several items. Either all of them are taken or none."""
        futures: list[Future[Result]] = [Future() for _ in items]
        with self._change:
            if self._closed:
                raise StoreError("the registry", "is closed; it takes no more changes")
            if len(self._waiting) + len(items) > MOST_WAITING:
                raise OverloadedError("changes", len(self._waiting), RETRY_AFTER)
            self._waiting.extend(zip(items, futures, strict=True))
            self._change.notify()
        return futures

    def commit(self, item: Item, timeout: float | None = None) -> Result:
        """Returns the item's result, or raises its exception. Raises TimeoutError after `timeout` seconds; an item that has begun by
        then is still completed, and one that has not is dropped."""
        future = self.submit(item)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Refuses further items, and returns when those that were taken are done."""
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
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST_GROUP))]
            # Items whose callers have given up are left out. From here on the items cannot be cancelled.
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
        if len(results) != len(group):  # the items were performed, so they must not be performed again
            results = [RuntimeError(f"{len(results)} results for {len(group)} items")] * len(group)
        for (_, future), result in zip(group, results, strict=True):
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
