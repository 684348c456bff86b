"""Tests with clusters run in two processes, those of a folder in one; a third process never gets any (tests/conftest.py)."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import needs_a_cluster, pytest_xdist_make_scheduler, unit_of


class Process:
    """What the scheduler sees of a process that runs tests: it runs one only when it has another, or when it is shutting down."""

    def __init__(self, name: str, collected: list[str]) -> None:
        self.name, self.collected = name, collected
        self.given: list[int] = []
        self.ran: list[str] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id=name)

    def send_runtest_some(self, places: list[int]) -> None:
        assert not self.shutting_down
        self.given += places

    def shutdown(self) -> None:
        self.shutting_down = True

    def run_one(self) -> int | None:
        if len(self.given) < (1 if self.shutting_down else 2):
            return None
        place = self.given.pop(0)
        self.ran.append(self.collected[place])
        return place


CLUSTERS = [
    *(f"tests/spark/test_{file}.py::test_{number}" for file in "ab" for number in range(30)),
    *(f"tests/cluster/test_{file}.py::test_{number}" for file in "cd" for number in range(20)),
    *(f"tests/http/test_e.py::test_{number}" for number in range(15)),
    *(f"tests/cluster/failures/test_{file}.py::test_{number}" for file in "fgh" for number in range(2)),
    "tests/cluster/test_documents.py::test_it",
]
OTHERS = [f"tests/unit/test_{file}.py::test_{number}" for file in range(20) for number in range(7)]


@pytest.mark.parametrize(
    "tests", [CLUSTERS + OTHERS, CLUSTERS, OTHERS, CLUSTERS[-1:]], ids=["all", "clusters", "others", "one"]
)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("pace", [1, 5])
def test_every_test_runs_where_it_may(tests: list[str], count: int, pace: int) -> None:
    config: Any = SimpleNamespace(
        getvalue={"dist": "loadgroup", "tx": [f"{count}*popen"]}.get, option=SimpleNamespace()
    )
    scheduler = pytest_xdist_make_scheduler(config, None)
    processes: list[Any] = [Process(f"gw{number}", tests) for number in range(count)]
    for process in processes:
        scheduler.add_node(process)
        scheduler.add_node_collection(process, tests)
    scheduler.schedule()
    busy = True
    while busy:
        busy = False
        for number, process in enumerate(processes):
            for _ in range(pace if number == count - 1 else 1):
                place = process.run_one()
                if place is not None:
                    busy = True
                    scheduler.mark_test_complete(process, place)
    assert Counter(test for process in processes for test in process.ran) == Counter(tests)
    assert scheduler.tests_finished
    for process in processes[2:]:
        assert not any(map(needs_a_cluster, process.ran))
    where = {unit_of(test): process.name for process in processes for test in process.ran}
    for process in processes:
        assert all(where[unit_of(test)] == process.name for test in process.ran)
        begun = [needs_a_cluster(test) for test in process.ran]
        assert begun == sorted(begun, reverse=True), "tests with clusters come first"
