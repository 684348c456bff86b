"""kill -9 of any process under load: what was acknowledged stays, every publication is exact, no delivery is lost or comes twice."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import ray_pubsub
from actors.cluster import Joined
from benchmarks.chaos_account import Account
from benchmarks.chaos_workload import Workload, kill

LEASE = 1.0


def killed_under_load(workload: Workload, *victims: tuple[str, ...]) -> None:
    """After each kill everybody gets on."""
    with workload.running():
        workload.progressed()
        for each in victims:
            kill(workload.server, *each)
            workload.progressed()
    assert workload.check() == []


def killed_while_loading(workload: Workload, victim: str, count: int = 400) -> None:
    loading = threading.Thread(target=workload.load, args=(f"bulk-{victim}", count))
    loading.start()
    kill(workload.server, victim)
    loading.join()


def test_any_process_of_a_small_server_may_be_killed(cluster: Joined, tmp_path: Path) -> None:
    with ray_pubsub.start(2, tmp_path, "kills", lease=LEASE) as server:
        workload = Workload(server, Account())
        killed_under_load(workload, ("shard-0",), ("coordinator-0",), ("registry",), ("shard-1", "coordinator-0", "registry"))
        workload = Workload(server, workload.account, seed=1, first=workload.numbers)
        with workload.running():
            for victim in ("shard-1", "coordinator-0", "registry"):
                killed_while_loading(workload, victim)
                workload.progressed()
        assert workload.check() == []


def test_any_process_of_a_large_server_may_be_killed(cluster: Joined, tmp_path: Path) -> None:
    with ray_pubsub.start(2, tmp_path, "kills-2", coordinators=2, lease=LEASE) as server:
        killed_under_load(
            Workload(server, Account(), seed=2), ("coordinator-1",), ("mailboxes",), ("coordinator-0", "mailboxes", "registry")
        )
