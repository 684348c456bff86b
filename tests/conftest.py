"""Hypothesis draws the same examples on every run, so that a failure is a failure of the code. What is measured about the machine is kept
with the run, not in the user's home. Under pytest-xdist, tests that share a cluster or a session run in one process."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from actors.cluster import Joined

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("repeatable")

os.environ.setdefault("RAY_PUBSUB_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"ray-pubsub-tests-{os.getuid()}"))
# Ray reads these when it is imported, so they are set before any test is. The first makes it listen on the loopback interface only; it is
# the one switch that does (`_node_ip_address="127.0.0.1"` is replaced by the machine's address). The token is this run's; Ray would write
# one to the user's home.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

TOGETHER = ("tests/cluster/", "tests/spark/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """--dist loadgroup by folder, otherwise by file, so that what the tests of a file share is made once. pytest-xdist 3.8 appends groups
    to the ids of tests, which pytest 9.2 ignores without a word."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])

    # By name rather than by number of tests: the folders with the longest come first, and many short files last, to fill the gap.
    config.option.loadscopereorder = False
    return ByFolder(config, log)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Joined]:
    """One Ray cluster for all tests of this process that ask for it: 2 CPUs, reachable from this machine only. This process is connected
    to it, and programs that tests start find it by RAY_ADDRESS."""
    from actors.cluster import ADDRESS_VARIABLE, join

    before = {name: os.environ.get(name) for name in (ADDRESS_VARIABLE, "RAY_TMPDIR")}
    # Short, because the paths of Ray's sockets are below it and may have 107 characters.
    folder = tempfile.mkdtemp(prefix="rp", dir="/tmp")
    os.environ["RAY_TMPDIR"] = folder
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
