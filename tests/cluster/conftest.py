"""One Ray cluster for all tests of this folder, started when the first of them asks for it: 2 CPUs, reachable from this machine only."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import ray_pubsub
from actors.cluster import ADDRESS_VARIABLE, Joined, join

if TYPE_CHECKING:
    from actors.server import Server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Joined]:
    """The tests' cluster; this process is connected to it, and programs that tests start find it by RAY_ADDRESS."""
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


@pytest.fixture(scope="session")
def server(cluster: Joined) -> Iterator[Server]:
    """One server for all tests that break nothing: each has ids, subscribers and attributes of its own."""
    with ray_pubsub.start(name="shared", mailbox={"capacity": 25_000}) as server:
        yield server
