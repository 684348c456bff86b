"""Quantiles of a histogram of bounded size are within a bucket of the exact ones."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.mailboxes.queue.waits import EDGES, Waits

waits = st.floats(1e-6, 1e6)


@given(waits=st.lists(waits, min_size=1, max_size=50), part=st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles(waits: list[float], part: float) -> None:
    histogram = Waits()
    histogram.add([-wait for wait in waits], 0.0)
    exact = sorted(waits)[ceil(part * len(waits)) - 1]
    found = histogram.quantile(part)
    assert found is not None
    assert exact <= found <= exact * 1.0906


@given(kept=st.lists(waits, max_size=20), removed=st.lists(waits, max_size=20))
def test_what_is_taken_back_leaves_no_trace(kept: list[float], removed: list[float]) -> None:
    both, only = Waits(), Waits()
    both.add([-wait for wait in kept + removed], 0.0)
    both.add([-wait for wait in removed], 0.0, weight=-1)
    only.add([-wait for wait in kept], 0.0)
    assert [both.quantile(part) for part in (0.0, 0.5, 0.99, 1.0)] == [
        only.quantile(part) for part in (0.0, 0.5, 0.99, 1.0)
    ]


@pytest.mark.parametrize(("wait", "shown"), [(0.0, EDGES[0]), (1e9, EDGES[-1])])
def test_beyond_the_edges(wait: float, shown: float) -> None:
    histogram = Waits()
    histogram.add([0.0], wait)
    assert histogram.quantile(0.5) == shown
