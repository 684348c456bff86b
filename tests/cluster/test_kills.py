"""kill -9 of any process under load: what was acknowledged stays, every publication is exact, no delivery is lost or comes twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ray_pubsub
from actors.cluster import Joined
from benchmarks.chaos_account import Account
from benchmarks.chaos_workload import Workload, kill

SETTINGS: dict[str, Any] = {"lease": 1.0, "mailbox": {"capacity": None, "capacity_bytes": None}}


def killed_under_load(workload: Workload, *victims: tuple[str, ...]) -> None:
    """Each while many subscriptions are being loaded too; after each kill everybody gets on."""
    with workload.running(), ThreadPoolExecutor(1) as pool:
        workload.progressed()
        for each in victims:
            loading = pool.submit(workload.load, "+".join(each), 300)
            kill(workload.server, *each)
            loading.result()
            workload.progressed()
    assert workload.check() == []
    assert workload.account.errors["publish: rejected"] == 0  # those would not have been looked for


def test_any_process_of_a_small_server_may_be_killed(cluster: Joined, tmp_path: Path) -> None:
    with ray_pubsub.start(2, tmp_path, "kills", **SETTINGS) as server:
        workload = Workload(server, Account())
        everybody = ("shard-0", "shard-1", "coordinator-0", "registry")
        killed_under_load(workload, ("shard-0",), ("coordinator-0",), ("registry",), everybody)


def test_any_process_of_a_large_server_may_be_killed(cluster: Joined, tmp_path: Path) -> None:
    with ray_pubsub.start(1, tmp_path, "kills-2", coordinators=2, **SETTINGS) as server:
        workload = Workload(server, Account(), seed=2)
        killed_under_load(workload, ("coordinator-1",), ("mailboxes",), ("coordinator-0", "mailboxes", "registry"))
