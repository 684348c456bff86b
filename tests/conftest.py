"""Settings of every run, the order of tests under pytest-xdist, and the Ray cluster that tests share.

Hypothesis draws the same examples on every run, so that a failure is a failure of the code. Measurements of the machine are kept with the
run, not in the user's home.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.examples import EXAMPLES

if TYPE_CHECKING:
    from actors.cluster.joining import Joined
    from tests.temporary_postgres import TemporaryPostgres

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=EXAMPLES)
settings.load_profile("repeatable")

# Importing everything and collecting thousands of tests makes no garbage, but would make the collector look through all of it again and
# again, a sixth of the time that it takes. What is there when the tests begin is never looked at.
gc.disable()

os.environ.setdefault("RAY_PUBSUB_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"ray-pubsub-tests-{os.getuid()}"))
# Servers of this run are found by its own programs only.
if "RAY_PUBSUB_RUNTIME_DIR" not in os.environ:
    os.environ["RAY_PUBSUB_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="ray-pubsub-servers-")
    atexit.register(shutil.rmtree, os.environ["RAY_PUBSUB_RUNTIME_DIR"], ignore_errors=True)
# Kernels are compiled where they are first used, so that a test never depends on what another process has compiled.
os.environ.setdefault("RAY_PUBSUB_KERNELS", "now")
# Ray reads these when it is imported, so they are set before any test is. The first makes it listen on the loopback interface only; it is
# the one switch that does (`_node_ip_address="127.0.0.1"` is replaced by the machine's address). The token is this run's; Ray would write
# one to the user's home.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

# Ray would start its workers at low priority, below tests that only compute.
os.environ.setdefault("RAY_worker_niceness", "0")

TOGETHER = (
    "tests/spark/", "tests/cluster/", "tests/http/", "tests/cluster/failures/", "tests/cluster/test_joining.py",
    "tests/cluster/test_examples.py", "tests/cluster/test_own_cluster.py", "tests/cluster/test_documents.py",
)  # fmt: skip
"""Tests with clusters, in the order in which they begin, the longest first. Those of a folder share a server and run in one process; files
that are named, and each of the failures, have servers of their own and run where there is time."""
CLUSTERS = 2
"""The number of processes that run tests with clusters, which often wait; more clusters at once starve each other on two cores. A further
process computes all other tests meanwhile, at a lower priority, and has the help of these two when no test with a cluster is left."""
LOW_PRIORITY = 4


def place_of(nodeid: str) -> int:
    """Of a test in TOGETHER, by the longest name that fits; the tests without a cluster come after all of these."""
    fitting = [name for name in TOGETHER if nodeid.startswith(name)]
    return TOGETHER.index(max(fitting, key=len)) if fitting else len(TOGETHER)


def needs_a_cluster(nodeid: str) -> bool:
    return place_of(nodeid) < len(TOGETHER)


def unit_of(nodeid: str) -> str:
    """The tests that run together with this one: of a folder, or of a file, so that what the tests of a file share is made once."""
    together = nodeid.startswith(TOGETHER[:3]) and place_of(nodeid) < 3
    return TOGETHER[place_of(nodeid)] if together else nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place_of(item.nodeid))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries report what is left when the process ends


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and not needs_a_cluster(item.nodeid) and os.nice(0) < LOW_PRIORITY:
        os.nice(LOW_PRIORITY - os.nice(0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """--dist loadgroup by `unit_of`. pytest-xdist 3.8 appends groups to the ids of tests, which pytest 9.2 ignores without a word."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class InUnits(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

        def _next_unit(self, node: Any) -> str | None:
            with_clusters = node in self.nodes[:CLUSTERS]
            return next((unit for unit in self.workqueue if with_clusters or not needs_a_cluster(unit)), None)

        def _assign_work_unit(self, node: Any) -> None:
            unit = self._next_unit(node)
            if unit is not None:
                self.workqueue.move_to_end(unit, last=False)
                super()._assign_work_unit(node)

        def _reschedule(self, node: Any) -> None:
            if self.workqueue and self._next_unit(node) is None and not node.shutting_down:
                node.shutdown()  # what is left is not for this one
            else:
                super()._reschedule(node)

    # In the order of collection, not by the number of tests.
    config.option.loadscopereorder = False
    return InUnits(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[TemporaryPostgres]:
    """One PostgreSQL server for all tests of this process that ask for it; each has schemas of its own."""
    from tests.temporary_postgres import TemporaryPostgres

    with TemporaryPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Joined]:
    """One Ray cluster for all tests of this process that ask for it: 2 CPUs, reachable from this machine only. This process is connected
    to it, and programs that tests start find it by RAY_ADDRESS."""
    from actors.cluster.joining import ADDRESS_VARIABLE, join
    from ray_pubsub.failpoints import VARIABLE as FAILPOINTS

    _compile_kernels()
    before = {name: os.environ.get(name) for name in (ADDRESS_VARIABLE, "RAY_TMPDIR", FAILPOINTS)}
    # Short, because the paths of Ray's sockets are below it and may have 107 characters.
    folder = tempfile.mkdtemp(prefix="rp", dir="/tmp")
    os.environ["RAY_TMPDIR"] = folder
    os.environ[FAILPOINTS] = (
        f"{folder}/failpoints"  # for `failpoints`; processes of the cluster look for it when they start
    )
    with _one_at_a_time("cluster"):  # Ray gives up a node that has not started after half a minute
        joined = join("local", start=True)
    os.environ[ADDRESS_VARIABLE] = joined.address
    try:
        yield joined
    finally:
        joined.leave()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def failpoints(cluster: Joined) -> Iterator[Path]:
    """A file by which processes of the cluster crash or fail where they write (ray_pubsub/failpoints.py)."""
    from ray_pubsub.failpoints import VARIABLE

    path = Path(os.environ[VARIABLE])
    yield path
    path.unlink(missing_ok=True)


@contextmanager
def _one_at_a_time(what: str) -> Iterator[None]:
    """Among the processes of all runs on this machine."""
    with (Path(tempfile.gettempdir()) / f"ray-pubsub-tests-{what}-{os.getuid()}.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile_kernels() -> None:
    """What every server needs, compiled before one has a deadline: in a fresh tree that takes longer than some tests wait."""
    from ray_pubsub import MatchIndex, PriorityRules

    index, rules = MatchIndex(), PriorityRules(["low", "high"])
    index.add_many(range(3), ["x = 1", "y > 2 and x < 9", "s = 'a'"])
    index.match({"x": 1, "s": "a"})
    index.match_many([{"x": 1}, {"y": 3.5}])
    rules.add("r", "high", "x > 1")
    rules.priorities([{"x": 1}])
