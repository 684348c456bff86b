"""Two servers for the tests of this folder, on the cluster of tests/conftest.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import ray_pubsub
from actors.cluster.joining import Joined

if TYPE_CHECKING:
    from actors.client.server import Server


@pytest.fixture(scope="package")
def server(cluster: Joined) -> Iterator[Server]:
    """One server for all tests that break nothing: each has ids, subscribers and attributes of its own."""
    with ray_pubsub.start(name="shared", mailbox={"capacity": 25_000}) as server:
        yield server


@pytest.fixture(scope="package")
def second(cluster: Joined) -> Iterator[Server]:
    """Another one, with two coordinators, so that its mailboxes are in a process of their own, small ones, and without sockets."""
    mailbox = {"capacity": 3, "overflow": "drop-oldest", "delivery_limit": 2, "window": 4}
    settings: dict[str, Any] = {"levels": ["bulk", "express"], "mailbox": mailbox, "engine": "scan", "sockets": False}
    with ray_pubsub.start(1, name="second", coordinators=2, **settings) as server:
        yield server
