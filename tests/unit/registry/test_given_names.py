"""The longest ids and names of subscribers that a server takes."""

from __future__ import annotations

import pytest

from actors.registry.columns import TextColumns
from actors.registry.given_names import LONGEST_NAME
from actors.registry.interval_load import read_intervals
from actors.registry.registry import Registry
from ray_pubsub.errors import RayPubSubError, SettingError, SubscriptionIdError, TableError
from tests.unit.registry.store_changes import intervals

LONG = "é" * LONGEST_NAME
TOO_LONG = LONG + "é"


def test_ids_and_names_have_a_longest_length(registry: Registry) -> None:
    registry.subscribe(LONG, "x > 1", LONG)
    assert registry.get(LONG).subscriber == LONG
    with pytest.raises(SubscriptionIdError, match="at most 1,000 characters") as caught:
        registry.subscribe("ann", "x > 1", TOO_LONG)
    assert len(str(caught.value)) < 200  # the message does not repeat all of it
    with pytest.raises(SettingError, match="at most 1,000 characters"):
        registry.subscribe(TOO_LONG, "x > 1", "a")
    with pytest.raises(SubscriptionIdError):
        registry.prioritize(TOO_LONG, "high", "x > 1")
    assert registry.unsubscribe(LONG) and not registry.unsubscribe(TOO_LONG)


def test_of_many_only_those_that_are_too_long_are_refused(registry: Registry) -> None:
    columns = TextColumns(["a", TOO_LONG, "c"], ["ann", "ben", TOO_LONG], ["x > 1"] * 3)
    report = registry.subscribe_texts(columns)
    assert report.added == 1 and [each.position for each in report.rejections] == [1, 2]
    with pytest.raises(RayPubSubError):
        registry.get("c")


def test_tables_of_intervals_with_names_that_are_too_long() -> None:
    for column, ids, subscribers in (("id", [TOO_LONG], ["ann"]), ("subscriber", ["a"], [TOO_LONG])):
        with pytest.raises(TableError, match=f"{column}.*1,001 characters"):
            read_intervals(intervals(ids, subscriber=subscribers))
    with pytest.raises(SettingError, match="at most"):
        read_intervals(intervals(["a"]), TOO_LONG)
    assert read_intervals(intervals([LONG], subscriber=[LONG])).subscribers == [LONG]
