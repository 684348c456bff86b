"""Keeps the routes of stored subscriptions right when the stream changes, without being asked.

Coordinators report every few seconds what events carry. Whether that is a reason to look at all routes again is decided by
`ray_pubsub/sharding/reroute_policy.py`; whether new ones pay, by `rerouting.py`; how subscriptions get them, by `rebalancing.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from actors.registry.rebalancing import Mover, Rerouted
from actors.registry.routes import Routes
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.reroute_policy import ReroutePolicy, RoutesJudged

__all__ = ["RouteUpkeep"]

logger = logging.getLogger(__name__)

Reroute = Callable[[AttributeFrequencies, float], Rerouted]
"""Looks at all stored routes, and changes them if that pays, for a stream that has lasted for this number of events."""


class RouteUpkeep:
    """Checks from time to time, in a thread. Its methods may be called from any thread."""

    def __init__(
        self,
        routes: Routes,
        mover: Mover,
        every: float,
        judged: dict[str, Any] | None,
        policy: ReroutePolicy | None = None,
    ) -> None:
        """`every` is the least number of seconds between checks, 0: never. `judged` is what an earlier instance has saved."""
        self._routes, self._mover, self._every = routes, mover, every
        self._policy = policy or ReroutePolicy()
        known = AttributeFrequencies.of_state(judged) if judged else AttributeFrequencies()
        self._judged = RoutesJudged(known, routes.frequencies().observed)
        self._reported, self._closed = threading.Event(), threading.Event()
        self._checks = self._looks = self._rerouted = 0
        self._changed_for = 0.0
        self._fan_out: float | None = None

    def start(self, reroute: Reroute) -> None:
        """Starts the thread."""
        if self._every:
            threading.Thread(target=self._run, args=(reroute,), name="registry-routes", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread; what it is doing goes on."""
        self._closed.set()
        self._reported.set()

    def reported(self) -> None:
        """Called when a coordinator has reported what events carry."""
        self._reported.set()

    def check(self, reroute: Reroute) -> None:
        """Compares the stream with what it was, and looks at the routes if that is due."""
        now = self._routes.frequencies()
        self._judged = judged = self._policy.watched(self._judged, now)
        self._changed_for, self._fan_out = judged.lasted(now), self._mover.fan_out(now)
        self._checks += 1
        if self._policy.look_is_due(judged, now, self._fan_out, self._mover.subscriptions):
            plan, count = reroute(now, self._changed_for)
            self._looks += 1
            self._rerouted += count
            self._judged = self._policy.after(judged, now, plan)
            logger.info(
                "looked at routes: rerouted=%d fan_out=%.3f→%.3f pays_after=%.0f lasted=%.0f",
                count, plan.before, plan.after, plan.pays_after, self._changed_for,
            )  # fmt: skip

    def saved(self) -> dict[str, Any]:
        """Returns what the next instance must know."""
        return self._judged.stream.state()

    def stats(self) -> dict[str, Any]:
        """Returns the part of the registry's statistics that is about routes, as of the last check."""
        return {
            "every": self._every,
            "fan_out": self._fan_out,
            "changed_for": self._changed_for,
            "checks": self._checks,
            "looks": self._looks,
            "rerouted": self._rerouted,
        }

    def _run(self, reroute: Reroute) -> None:
        while self._reported.wait() and not self._closed.wait(self._every):
            self._reported.clear()
            started = time.monotonic()
            try:
                self.check(reroute)
            except RayPubSubError as error:  # a shard is away, or the registry is being closed
                logger.info("routes: %s", error)
            except Exception:  # without this thread routes would never be chosen again
                logger.exception("could not check the routes")
            self._closed.wait(time.monotonic() - started)  # at most half of the time
