"""A coordinator's attachment to the registry: a thread that loads the routing table and renews the lease for as long as the coordinator
lives."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from actors.coordinator.routing_table import RoutingTable
from actors.transport.messages import CoordinatorState
from ray_pubsub.errors import FencedError, RayPubSubError

__all__ = ["REPORT_FREQUENCIES_EVERY", "RegistryAttachment", "RegistryOfCoordinator"]

logger = logging.getLogger(__name__)

PAUSE = 0.1
REPORT_FREQUENCIES_EVERY = 10.0
"""In seconds; more often only if the registry looks at them more often."""


class RegistryOfCoordinator(Protocol):
    """The methods of the registry that a coordinator calls. Each may raise UnavailableError."""

    def start_coordinator(self, coordinator: int) -> int: ...

    def attach_coordinator(self, coordinator: int, epoch: int, age: float) -> CoordinatorState: ...

    def renew(
        self, coordinator: int, epoch: int, registry_epoch: int, serial: int, learned: dict[str, Any] | None
    ) -> bool | None: ...


class RegistryAttachment:
    """Keeps a coordinator attached to the registry. `frequencies` returns what was learned about attributes, which the registry uses for
    placement and routes; it is reported every `report_every` seconds."""

    def __init__(
        self,
        number: int,
        lease: float,
        report_every: float,
        registry: RegistryOfCoordinator,
        table: RoutingTable,
        frequencies: Callable[[], dict[str, Any]],
    ) -> None:
        self._number, self._lease, self._report_every = number, lease, report_every
        self._registry, self._table, self._frequencies = registry, table, frequencies
        self.epoch = 0
        self.fenced: FencedError | None = None
        """Set once a later instance has taken over: this one must not publish any more."""
        self._attached_since: float | None = None
        self._reported = time.monotonic()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Starts the thread. The attachment cannot be made in the actor's constructor: an actor whose constructor fails is never
        restarted."""
        threading.Thread(target=self._stay_attached, name=f"coordinator-{self._number}-lease", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _stay_attached(self) -> None:
        """Loads the whole state, and then renews the lease well before it ends. `renewed` is None while the state must be loaded."""
        renewed: bool | None = None
        failed = False
        while not self._stopped.wait(0 if renewed is None or failed else self._lease / 5):
            failed = False
            try:
                if not self.epoch:
                    self.epoch = self._registry.start_coordinator(self._number)
                if renewed is None:
                    self._attach()
                    renewed = True
                else:
                    renewed = self._renew()
            except FencedError as error:
                logger.warning("fenced coordinator=%d epoch=%d: %s", self._number, self.epoch, error)
                self.fenced = error
                return
            except RayPubSubError as error:
                logger.info("coordinator %d waits for the registry: %s", self._number, error)
                failed = True
                time.sleep(PAUSE)
            except Exception:  # without this thread the coordinator would never publish again
                logger.exception("coordinator %d", self._number)
                time.sleep(PAUSE)

    def _attach(self) -> None:
        asked_at = time.monotonic()
        self._table.drop_lease()
        age = 0.0 if self._attached_since is None else asked_at - self._attached_since
        state = self._registry.attach_coordinator(self._number, self.epoch, age)
        if self._attached_since is None:
            self._attached_since = time.monotonic()
        self._table.load(state, asked_at)
        logger.info(
            "attached coordinator=%d epoch=%d registry_epoch=%d version=%d serial=%d lineage=%s pid=%d",
            self._number, self.epoch, state.registry_epoch, state.version, state.serial, state.lineage, os.getpid(),
        )  # fmt: skip

    def _renew(self) -> bool | None:
        """Renews the lease. Returns None if the registry does not know this coordinator any more."""
        asked_at = time.monotonic()
        frequencies = None
        if asked_at - self._reported > self._report_every:
            self._reported = asked_at
            frequencies = self._frequencies()
        table = self._table
        renewed = self._registry.renew(self._number, self.epoch, table.registry_epoch, table.serial, frequencies)
        if renewed:
            table.renew_lease(asked_at, self._lease)
        return renewed
