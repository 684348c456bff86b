"""Whether the name that a consumer polls is anybody's: a misspelt one would wait for ever without a word."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable
from typing import Any

from ray_pubsub.errors import RayPubSubError, UnknownSubscriberWarning

__all__ = ["SubscriberCheck"]

PATIENCE, PAUSE = 1.0, 60.0
"""Seconds that the registry has for its answer, and after which it is asked again if there was none."""


class SubscriberCheck:
    """Asks the registry when a poll of a name has come back empty for the first time, and warns if nobody has subscribed by it. It is no
    error: a consumer may be started before its first subscription is made."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        """`ask`: calls a method of the registry."""
        self._ask = ask
        self._checked: set[str] = set()
        self._not_before = 0.0

    async def warn_if_unknown_async(self, subscriber: str) -> None:
        if subscriber not in self._checked:
            await asyncio.to_thread(self.warn_if_unknown, subscriber)

    def warn_if_unknown(self, subscriber: str) -> None:
        if subscriber in self._checked or time.monotonic() < self._not_before:
            return
        try:
            known, similar = self._ask("is_subscriber", subscriber, timeout=PATIENCE)
        except RayPubSubError:
            self._not_before = time.monotonic() + PAUSE  # the registry restarts, which must not slow the polls down
            return
        self._checked.add(subscriber)
        if not known:
            # The caller of Server.poll, which calls Consumer.poll, which calls this.
            warnings.warn(UnknownSubscriberWarning(subscriber, similar), stacklevel=4)
