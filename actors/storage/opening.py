"""Opens a store in a background thread, with retries until it succeeds.

Ray never restarts an actor whose constructor has raised. So a constructor starts this, and calls that need the store raise the true error
(the disk is full, the folder is missing) until the store is open.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ray_pubsub.errors import RayPubSubError, SettingError, StoreError, UnavailableError

__all__ = ["Opening"]

Opened = TypeVar("Opened")

logger = logging.getLogger(__name__)

FIRST_ATTEMPT = 60.0
"""The seconds for which `get` waits for the first attempt."""
RETRY_EVERY = 1.0


class Opening(Generic[Opened]):
    """A store that is being opened. Safe to use from several threads."""

    def __init__(self, open: Callable[[], Opened], who: str) -> None:
        """`open` raises SettingError for what no retry can mend, any other error for what may change. `who` is named in errors."""
        self._open, self._who = open, who
        self._opened: Opened | None = None
        self._error: RayPubSubError | None = None
        self._attempted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"open {who}", daemon=True)
        self._thread.start()

    def get(self) -> Opened:
        """Returns the opened store. Raises the error of the last attempt."""
        if self._opened is None:
            if not self._attempted.wait(FIRST_ATTEMPT):
                raise UnavailableError(self._who, "is still opening its store")
            if self._opened is None:
                assert self._error is not None
                raise copy.copy(self._error)  # each caller gets a traceback of its own
        return self._opened

    def close(self) -> Opened | None:
        """Stops further attempts. Returns the opened store, or None if it was not opened."""
        self._closed.set()
        self._thread.join()
        return self._opened

    def _report(self, error: RayPubSubError) -> None:
        if str(error) != str(self._error):  # the same error is logged once, not at every attempt
            logger.error("%s could not open its store, and tries again: %s", self._who, error)
        self._error = error

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._opened = self._open()
            except RayPubSubError as error:
                self._report(error)
            except Exception as error:  # if the thread ended, the actor would be without a store for good
                logger.exception("%s could not open its store", self._who)
                self._report(StoreError(self._who, f"could not be opened: {type(error).__name__}: {error}"))
            self._attempted.set()
            if self._opened is not None or isinstance(self._error, SettingError):
                return
            self._closed.wait(RETRY_EVERY)
