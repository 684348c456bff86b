"""A server that keeps nothing: what dies with a process is lost, and the rest goes on, empty and consistent."""

from __future__ import annotations

import time

import ray_pubsub
from actors.cluster import Joined
from benchmarks.chaos_workload import kill

DEADLINE = 60.0


def test_a_registry_that_kept_nothing_begins_anew(cluster: Joined) -> None:
    with ray_pubsub.start(2, None, "forgetful", lease=1.0) as server:
        for number in range(20):
            server.subscribe("old-desk", f"a >= {number}", id=number)
        assert len(server.publish({"a": 3, "n": 1})[0]) == 4
        for number in (2, 3):  # a second time the numbers of epochs are those of before
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
        # The mailboxes were not killed: what waited there waits, and is its subscriber's still.
        waiting = server.poll("old-desk")
        assert {each.event["n"] for each in waiting if each.event} == {1}
        assert len(waiting) == 4


def test_mailboxes_that_kept_nothing_learn_names_anew(cluster: Joined) -> None:
    with ray_pubsub.start(1, None, "forgetful-2", coordinators=2, lease=1.0) as server:
        server.subscribe("desk", "a = 1", id="s1")
        server.publish({"a": 1, "n": 1})
        kill(server, "mailboxes")
        server.publish({"a": 1, "n": 2})
        found = []
        ends = time.monotonic() + DEADLINE
        while not found and time.monotonic() < ends:
            found = server.poll("desk", wait=1.0)
        assert [each.event for each in found] == [{"a": 1, "n": 2}]
