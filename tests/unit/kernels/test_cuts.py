"""Cuts are swept in the same way whether they are sorted as single numbers or one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.texts.cuts import ABOVE, BEHIND, BELOW, CUT, LEAD, pack_cuts, put_cut, sweep, sweep_any
from ray_pubsub.kernels.texts.layout import NUMBER, STRING, TIMESTAMP

WHOLES = [0, 1, -1, 5, 2**57 - 2, 2**57 - 1, 2**57, -(2**57), -(2**57) + 1, 2**63 - 1, -(2**63)]
edges = st.tuples(
    st.sampled_from([LEAD, BEHIND, BELOW, ABOVE]), st.sampled_from(WHOLES), st.sampled_from([0.0, 0.0, 0.5])
)
Interval = tuple[int, tuple[int, int, float], tuple[int, int, float]]


@compiled
def write(cuts, kinds, places, wholes, rests):  # type: ignore[no-untyped-def]
    for number in range(len(kinds)):
        put_cut(cuts[number], kinds[number], places[number], wholes[number], rests[number], 1 - 2 * (number & 1))


@compiled
def swept(cuts, needed, out, other):  # type: ignore[no-untyped-def]
    """Both ways; whether the cuts can be packed."""
    order, scratch = np.empty(len(cuts), np.int64), np.empty(len(cuts), np.int64)
    packed = pack_cuts(cuts, 0, len(cuts), order)
    end = sweep(cuts, 0, len(cuts), needed, order, scratch, out, 0)
    return packed, end, sweep_any(cuts, 0, len(cuts), needed, order, scratch, other, 0)


def cuts_of(intervals: list[Interval]) -> np.ndarray:
    ends = [(kind, *edge) for kind, low, high in intervals for edge in (low, high)]
    cuts = np.zeros(len(ends), CUT)
    kinds, places, wholes, rests = zip(*ends, strict=True)
    write(cuts, np.array(kinds), np.array(places), np.array(wholes, np.int64), np.array(rests))
    return cuts


@given(
    st.lists(st.tuples(st.sampled_from([NUMBER, STRING, TIMESTAMP]), edges, edges), min_size=1, max_size=60),
    st.integers(1, 3),
)
def test_both_ways_give_the_same_cuts(intervals: list[Interval], needed: int) -> None:
    cuts = cuts_of(intervals)
    out, other = np.zeros(len(cuts), CUT), np.zeros(len(cuts), CUT)
    _, end, other_end = swept(cuts, needed, out, other)
    assert out[:end].tolist() == other[:other_end].tolist()


def test_only_fractions_and_extreme_values_cannot_be_packed() -> None:
    def is_packed(whole: int, rest: float = 0.0) -> bool:
        cuts = cuts_of([(NUMBER, (BELOW, 0, 0.0), (BEHIND, whole, rest))])
        out = np.zeros(2, CUT)
        return bool(swept(cuts, 1, out, out.copy())[0])

    assert is_packed(0) and is_packed(2**57 - 2) and is_packed(-(2**57) + 1)
    assert not is_packed(0, 0.5) and not is_packed(2**57 - 1) and not is_packed(-(2**57)) and not is_packed(2**63 - 1)
