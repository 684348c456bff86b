"""Whatever strikes a server under load: what was acknowledged stays, every publication is exact, no delivery is lost or comes twice."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ray_pubsub
from actors.cluster.joining import Joined
from tests.chaos.account import Account
from tests.chaos.processes import kill
from tests.chaos.strikes import Strikes
from tests.chaos.workload import Workload

# Consumers begin before the first subscription.
pytestmark = pytest.mark.filterwarnings("ignore::ray_pubsub.errors.UnknownSubscriberWarning")

SETTINGS: dict[str, Any] = {"lease": 1.0, "mailbox": {"capacity": None, "capacity_bytes": None}}


def killed_under_load(workload: Workload, *victims: tuple[str, ...]) -> None:
    """Each while many subscriptions are being loaded too; after each kill everybody gets on."""
    with ThreadPoolExecutor(1) as pool:
        for each in victims:
            loading = pool.submit(workload.load, "+".join(each), 300)
            kill(workload.server, *each)
            loading.result()
            workload.progressed()


def assert_exact(workload: Workload) -> None:
    assert workload.check() == []
    assert workload.account.errors["publish: rejected"] == 0  # those would not have been looked for


def test_any_process_of_a_small_server_may_be_struck(cluster: Joined, failpoints: Path, tmp_path: Path) -> None:
    with ray_pubsub.start(2, tmp_path, "kills", **SETTINGS) as server:
        workload = Workload(server, Account())
        strikes = Strikes(server, failpoints, random.Random(1))
        with workload.running():
            workload.progressed()
            assert strikes.crash("registry.acknowledge"), "the reply to a change was lost"
            workload.progressed()
            strikes.fail("full", "mailboxes.fsync")
            workload.progressed()
            strikes.stop()
            killed_under_load(workload, ("coordinator-0",), ("shard-0", "shard-1", "coordinator-0", "registry"))
        assert_exact(workload)


def test_any_process_of_a_large_server_may_be_killed(cluster: Joined, tmp_path: Path) -> None:
    with ray_pubsub.start(1, tmp_path, "kills-2", coordinators=2, **SETTINGS) as server:
        workload = Workload(server, Account(), seed=2)
        with workload.running():
            workload.progressed()
            killed_under_load(workload, ("coordinator-1", "mailboxes"), ("coordinator-0", "mailboxes", "registry"))
        assert_exact(workload)
