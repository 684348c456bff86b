"""Dictionaries that each have a few of many attributes are read as others are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.dicts import sparse_dicts
from tests.examples import scaled


@settings(max_examples=scaled(30))
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["k0", "k1", "k7", "other"]),
            st.one_of(
                st.text("aé\0", max_size=3), st.just("\ud800"), st.integers(-5, 5), st.none(), st.floats(), st.booleans(),
                st.just([1]), st.just([1, 2]), st.just({"k": 1}), st.just(2**70),
            ),
            max_size=3,
        ),
        min_size=2,
        max_size=6,
    ),
    st.booleans(),
)  # fmt: skip
def test_a_few_of_many_attributes(events: list[dict[str, Any]], strings: bool) -> None:
    """Sparse events are read in a way of their own: as if there were only the attributes that they have."""
    if strings:
        events = [{key: str(value).replace("\ud800", "") for key, value in event.items()} for event in events]
    many, few = AttributeTree([f"k{number}" for number in range(50)]), AttributeTree(["k0", "k1", "k7"])
    found, wanted = from_dicts(events, None, many), from_dicts(events, None, few)
    assert found.rows() == wanted.rows()
    assert [(error.position, error.attribute) for error in found.errors] == [
        (error.position, error.attribute) for error in wanted.errors
    ]
    mixed: list[Any] = [events[0], None, *events[1:]]  # one that is no event
    assert from_dicts(mixed, None, many).rows() == wanted.rows()


@settings(max_examples=scaled(30))
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["k0", "k1", "k7"]),
            st.one_of(st.text("aé", max_size=3), st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans()),
            max_size=3,
        ),
        min_size=2,
        max_size=6,
    )
)
def test_short_lanes_are_converted_together(events: list[dict[str, Any]]) -> None:
    many, few = AttributeTree([f"k{number}" for number in range(50)]), AttributeTree(["k0", "k1", "k7"])
    wanted = from_dicts(events, None, few)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_dicts, "FEWEST_LANES", 0)
        found = from_dicts(events, None, many)
    assert found.rows() == wanted.rows()
    assert sorted(found.layout()) == sorted(wanted.layout())
    assert all(lane.rest is None or lane.rest.any() for lane in found.lanes)


def test_many_short_lanes_of_one_type_each() -> None:
    values: list[Any] = ["text", 5, 2.5, True, 2**53 + 1]
    events = [
        {f"k{(number + event) % 200}": values[(number + event) % 5] for number in range(100)} for event in range(4)
    ]
    found = from_dicts(events, None, AttributeTree([f"k{number}" for number in range(1000)]))
    assert len(found.lanes) > sparse_dicts.FEWEST_LANES
    assert [{name: value.plain for name, value in row.items()} for row in found.rows()] == events
