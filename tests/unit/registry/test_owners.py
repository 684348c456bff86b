"""Replacing and removing a subscription only as long as it belongs to the subscriber that was checked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from actors.registry.registry import Registry
from ray_pubsub.errors import ExpressionError, UnknownSubscriptionError


def test_a_subscription_is_replaced_and_removed_as_its_owners_only(registry: Registry) -> None:
    assert registry.subscribe_as(None, "ann", "x = 1", "s", {"since": 1}, ["t"])
    assert not registry.subscribe_as(None, "bob", "x = 2", "s")
    assert not registry.subscribe_as("bob", "bob", "x = 2", "s")
    found = registry.get("s")
    assert (found.subscriber, found.expression, found.data, found.tags) == ("ann", "x = 1", {"since": 1}, ("t",))
    assert registry.subscribe_as("ann", "ann-2", "x = 3", "s")
    assert registry.get("s").subscriber == "ann-2"
    assert not registry.unsubscribe_as("ann", "s")
    assert registry.unsubscribe_as("ann-2", "s")
    assert not registry.unsubscribe_as("ann-2", "s")
    with pytest.raises(UnknownSubscriptionError):
        registry.get("s")
    with pytest.raises(ExpressionError):
        registry.subscribe_as(None, "ann", "x =", "s")


def test_of_several_who_find_an_id_free_one_gets_it(registry: Registry) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            won = list(pool.map(lambda name, id=number: registry.subscribe_as(None, name, "x = 1", id), "abcdefgh"))
            assert won.count(True) == 1
            assert registry.get(number).subscriber == "abcdefgh"[won.index(True)]
