"""Sets in columns are the sets they were made from, wherever they are copied to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.tree import Constant, Leaf
from ray_pubsub.language.value_set import ValueSet, intersection, leaf_value_set
from tests.generators import ATTRIBUTES, predicates

NAMES = sorted(ATTRIBUTES)


def set_of(leaf: Leaf, negated: bool) -> tuple[str, ValueSet] | None:
    if isinstance(leaf, Constant):
        return None
    allowed = leaf_value_set(leaf, negated)
    return None if allowed.is_empty else (leaf.attribute, allowed)


some_sets = st.lists(st.tuples(predicates(), st.booleans()), min_size=1, max_size=12)


@given(some_sets)
def test_they_survive_every_way_of_copying(drawn: list[tuple[Leaf, bool]]) -> None:
    found = [each for leaf, negated in drawn if (each := set_of(leaf, negated)) is not None]
    joint = [(name, intersection([allowed, allowed])) for name, allowed in found]
    vocabulary, other = Vocabulary(), Vocabulary()
    sets = OpaqueSets.empty()
    numbers = [sets.add(vocabulary.attributes.number(name), allowed, vocabulary) for name, allowed in found + joint]
    assert numbers[: len(found)] == numbers[len(found) :], "equal sets have one number"
    wanted = dict(zip(numbers, found, strict=False))
    copies = sets.take(np.arange(len(sets)))  # which has no memory of the sets it was made from
    for number, (name, allowed) in wanted.items():
        assert vocabulary.attributes.texts[copies.attributes[number]] == name
        assert copies.value_set(number, vocabulary) == allowed
    # Another vocabulary, in which numbers are others.
    other.strings.numbers(["zz", *reversed(vocabulary.strings.texts)])
    attributes = np.array(other.attributes.numbers(vocabulary.attributes.texts), np.int32)
    strings = np.array(other.strings.numbers(vocabulary.strings.texts), np.int64)
    moved = copies.moved(attributes, strings)
    again = OpaqueSets.empty()
    first, second = again.extend(moved), again.extend(moved)
    assert first.tolist() == second.tolist(), "sets that are there already are not put in again"
    assert len(again) == len(sets)
    for number, (_, allowed) in wanted.items():
        assert again.value_set(int(first[number]), other) == allowed
