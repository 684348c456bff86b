"""Checks that the name a consumer polls belongs to a subscriber. A misspelt name would otherwise wait for ever, without any message."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable
from typing import Any

from ray_pubsub.errors import RayPubSubError, UnknownSubscriberWarning

__all__ = ["SubscriberCheck"]

PATIENCE, PAUSE = 1.0, 60.0
"""The seconds that the registry has for its answer, and the seconds until it is asked again if it gave none."""


class SubscriberCheck:
    """Asks the registry when a poll of a name comes back empty for the first time, and warns if nobody has subscribed under it. It is
    not an error, because a consumer may be started before its first subscription is made."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        """`ask` calls a method of the registry."""
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
            self._not_before = time.monotonic() + PAUSE  # the registry restarts, and polls must not slow down
            return
        self._checked.add(subscriber)
        if not known:
            warnings.warn(UnknownSubscriberWarning(subscriber, similar), stacklevel=3)  # the level of poll's caller
