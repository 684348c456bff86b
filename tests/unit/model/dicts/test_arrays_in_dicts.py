"""numpy arrays as values of dicts: lists of their elements, in every dimension and of every type."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from ray_pubsub.model.dict_events import flatten, from_dicts

ARRAYS: list[tuple[Any, Any]] = [
    (np.array([1, 2]), [1, 2]),
    (np.array([1, 2], np.uint64), [1, 2]),
    (np.array([1.5, float("nan"), 2.0]), [1.5, None, 2]),
    (np.array([1.5], np.float16), [1.5]),
    (np.array(["a", "\u00e9"]), ["a", "\u00e9"]),
    (np.array([True, False]), [True, False]),
    (np.array(["2024-05-01", "NaT"], "datetime64[us]"), [datetime.datetime(2024, 5, 1), None]),
    (np.array(["2024-05-01"], "datetime64[D]"), [datetime.datetime(2024, 5, 1)]),
    (np.array(["2024-05-01"], "datetime64[ns]"), [datetime.datetime(2024, 5, 1)]),
    (np.array(["a", None, 1, 2.5], object), ["a", None, 1, 2.5]),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array([[["a"], ["b"]]]), [[["a"], ["b"]]]),
    (np.array([]), []),
    (np.zeros((2, 0)), [[], []]),
    (np.arange(10)[::-3], [9, 6, 3, 0]),
    (np.array(5), 5),
]


@pytest.mark.parametrize(
    ("array", "same"), ARRAYS, ids=lambda each: f"{each.dtype}{each.shape}" if hasattr(each, "dtype") else ""
)
def test_an_array_is_a_list(array: Any, same: Any) -> None:
    """In an event alone, among others, and beside lists under the same name."""
    wanted = from_dicts([{"x": same}]).rows()[0]
    assert wanted == flatten({"x": array})
    assert from_dicts([{"x": array}]).rows() == [wanted]
    assert from_dicts([{"x": array}, {}, {"x": same}, {"x": array}]).rows() == [wanted, {}, wanted, wanted]


@pytest.mark.parametrize(
    "array", [np.array([b"a"]), np.array([1j]), np.array([3], "timedelta64[s]"), np.array([2**64 - 1], np.uint64)]
)
def test_an_array_of_what_is_no_value_is_refused(array: Any) -> None:
    for events in ([{"x": array}], [{"x": array}, {"y": 1}]):
        assert [(error.position, error.attribute) for error in from_dicts(events).errors] == [(0, "x")]
