"""One server for the tests of this folder, on the cluster of tests/conftest.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import ray_pubsub
from actors.cluster.joining import Joined

if TYPE_CHECKING:
    from actors.client.server import Server


@pytest.fixture(scope="session")
def server(cluster: Joined) -> Iterator[Server]:
    """One server for all tests that break nothing: each has ids, subscribers and attributes of its own."""
    with ray_pubsub.start(name="shared", mailbox={"capacity": 25_000}) as server:
        yield server
