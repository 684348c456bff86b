"""Id → slot against a dictionary, over random sequences with long probe runs, wraps and deletions in the middle of a run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.index.slot_map import SlotMap
from ray_pubsub.kernels.index.id_table import EMPTY, home, insert, take_out
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

IDS = st.one_of(st.integers(-5, 40), st.sampled_from([INT64_MIN, INT64_MAX, 0]), st.text("ab", max_size=2))
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "pop", "many", "pop many"]), st.lists(IDS, min_size=1, max_size=12))
)


@given(OPERATIONS)
def test_it_is_a_dictionary(operations) -> None:
    slots, model, following = SlotMap(), {}, 0
    for operation, ids in operations:
        if operation == "put":
            assert slots.put(ids[0], following) == model.pop(ids[0], EMPTY)
            model[ids[0]] = following
            following += 1
        elif operation == "pop":
            assert slots.pop(ids[0]) == model.pop(ids[0], EMPTY)
        elif operation == "pop many":
            there = [slot for slot in [model.pop(identity, EMPTY) for identity in ids] if slot != EMPTY]
            assert slots.pop_many(ids).tolist() == there
        else:
            lost = slots.put_many(ids, following)
            expected = []
            for slot, identity in enumerate(ids, following):
                if identity in model:
                    expected.append(model.pop(identity))
                model[identity] = slot
            following += len(ids)
            assert sorted(lost.tolist()) == sorted(expected)
        assert len(slots) == len(model)
        assert slots.slots().tolist() == sorted(model.values())
        for identity in ids:
            assert slots.get(identity) == model.get(identity, EMPTY)


def test_an_int_and_its_text_are_two_ids() -> None:
    slots = SlotMap()
    slots.put(1, 10)
    slots.put("1", 11)
    assert (slots.get(1), slots.get("1")) == (10, 11)


def test_a_run_over_the_end_of_the_table_closes_its_gaps() -> None:
    places = 16
    by_home: dict[int, list[int]] = {}
    for key in range(4000):
        by_home.setdefault(int(home(np.int64(key), places)), []).append(key)
    table = np.full((places, 2), EMPTY, dtype=np.int64)
    keys = [*by_home[15][:3], *by_home[0][:2], *by_home[14][:2]]
    for slot, key in enumerate(keys):
        assert insert(table, key, slot) == EMPTY
    left = dict(zip(keys, range(len(keys)), strict=True))
    for key in [by_home[15][0], by_home[0][0], by_home[14][1], by_home[15][2]]:
        assert take_out(table, key) == left.pop(key)
        assert take_out(table, key) == EMPTY
        for other, slot in left.items():
            assert insert(table, other, slot) == slot


def test_a_million_ints_take_little_memory() -> None:
    slots = SlotMap()
    assert not len(slots.put_many(np.arange(1_000_000) * 7919, 0))
    assert slots.nbytes < 25 * 1_000_000
    assert slots.get(7919 * 123_456) == 123_456 and slots.get(5) == EMPTY


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("together", [True, False])
def test_what_was_removed_takes_no_memory(kind: type, together: bool) -> None:
    slots, ids = SlotMap(), [kind(number) for number in range(50_000)]
    slots.put_many(ids, 0)
    full, left = slots.nbytes, 1_000
    if together:
        slots.pop_many(ids[left:])
    else:
        for identity in ids[left:]:
            slots.pop(identity)
    assert slots.nbytes < full / 4
    assert slots.slots().tolist() == list(range(left))
    assert [slots.get(identity) for identity in ids[: left + 1]] == [*range(left), EMPTY]
    slots.put_many(ids, 0)
    assert len(slots) == len(ids) and slots.nbytes <= 1.5 * full
