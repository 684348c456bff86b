"""When subscriptions move: on request, by themselves, or to end what a crash has interrupted; never two of these at once.

How they move is in `rebalancing.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actors.registry.change_writer import ChangeWriter
from actors.registry.changes import SetSetting
from actors.registry.columns import RebalanceReport
from actors.registry.rebalancing import Mover, Rerouted
from actors.registry.route_upkeep import RouteUpkeep
from actors.registry.routes import Routes
from ray_pubsub.errors import UnavailableError
from ray_pubsub.sharding.frequency import AttributeFrequencies

__all__ = ["BALANCE", "Moves"]

logger = logging.getLogger(__name__)

PAUSE = 0.2
BALANCE = 1.1
"""The largest load of a shard after a rebalance, in means."""


class Moves:
    """Safe to use from several threads."""

    def __init__(self, mover: Mover, routes: Routes, upkeep: RouteUpkeep, writer: ChangeWriter, timeout: float) -> None:
        self.settled = threading.Event()
        """Set when nothing is left of an interrupted move."""
        self.upkeep = upkeep
        self._mover, self._routes, self._writer, self._timeout = mover, routes, writer, timeout
        self._moving, self._closed = threading.Lock(), threading.Event()

    def start(self) -> None:
        self._settle_in_background()
        self.upkeep.start(self.reroute)

    def stop(self) -> None:
        self._closed.set()
        self.upkeep.stop()

    def rebalance(self, factor: float) -> RebalanceReport:
        """Chooses routes again where the stream has changed, and balances the loads of the shards."""
        with self._alone():
            return self._mover.rebalance(self._routes.frequencies(), factor, self._routes.chosen_again)

    def reroute(self, frequencies: AttributeFrequencies, lasted: float) -> Rerouted:
        """Does the same if the stream has changed for enough events that it pays."""
        with self._alone():
            return self._mover.reroute(frequencies, BALANCE, self._routes.chosen_again, lasted)

    def learned(self) -> dict[str, Any]:
        """Returns the settings that hold what is known of the stream."""
        return {"frequencies": self._routes.frequencies().state(), "routes_judged": self.upkeep.saved()}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until nothing else moves. What is known of the stream is saved at the end."""
        with self._moving:
            try:
                yield
            finally:
                if self._writer.announcer.moving:  # the move ended half-way, because a shard stayed away
                    self._settle_in_background()
            for name, value in self.learned().items():
                self._writer.submit(SetSetting(name, value), self._timeout)

    def _settle_in_background(self) -> None:
        """Ends a move that a crash may have interrupted, as soon as all shards answer."""

        def settle() -> None:
            while self._writer.announcer.moving and not self._closed.is_set():
                try:
                    with self._moving:
                        self._mover.settle()
                except UnavailableError as error:
                    logger.info("waiting for the shards: %s", error)
                    time.sleep(PAUSE)
                except Exception:  # without this thread the server would never be ready
                    logger.exception("could not settle")
                    time.sleep(1.0)
            self.settled.set()

        threading.Thread(target=settle, name="registry-settle", daemon=True).start()
