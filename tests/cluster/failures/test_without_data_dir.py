"""A server without a data_dir: what a killed process held is lost, and the server goes on, consistent."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined
from tests.chaos.processes import kill

DEADLINE = 60.0


@pytest.fixture(scope="module")
def server(cluster: Joined) -> Iterator[Server]:
    """With two coordinators, so that the mailboxes are in a process of their own."""
    with ray_pubsub.start(1, None, "forgetful", coordinators=2, lease=1.0) as started:
        yield started


def test_a_registry_without_a_data_dir_starts_empty(server: Server) -> None:

    for number in range(20):
        server.subscribe("old-desk", f"a >= {number}", id=number)
    assert len(server.publish({"a": 3, "n": 1})[0]) == 4
    for number in (2, 3):  # the second time, the epochs have the same numbers as before
        kill(server, "registry")
        # The new one gives its first subscriber the number that the old one had given to old-desk.
        server.subscribe("new-desk", "a = 3", id="fresh")
        result = server.publish({"a": 3, "n": number})
        assert list(result[0]) == ["fresh"]
        assert result.subscribers.tolist() == ["new-desk"]
        (delivery,) = server.poll("new-desk", wait=10)
        assert delivery.event == {"a": 3, "n": number}
        server.ack(delivery)
    assert list(server.subscriptions("old-desk")) == []
    # The mailboxes were not killed: what waited there still waits, for the same subscriber.
    waiting = server.poll("old-desk")
    assert {each.event["n"] for each in waiting if each.event} == {1}
    assert len(waiting) == 4


def test_mailboxes_without_a_data_dir_ask_for_the_names_of_subscribers(server: Server) -> None:

    server.subscribe("desk", "a = 1", id="s1")
    server.publish({"a": 1, "n": 1})
    kill(server, "mailboxes")
    server.publish({"a": 1, "n": 2})
    found = []
    ends = time.monotonic() + DEADLINE
    while not found and time.monotonic() < ends:
        found = server.poll("desk", wait=1.0)
    assert [each.event for each in found] == [{"a": 1, "n": 2}]
