"""Arguments that are refused: the error names the argument and says what it must be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub.errors import SettingError, SubscriptionIdError
from ray_pubsub.model.arguments import (
    are_ids,
    check_choice,
    check_flag,
    check_id,
    check_ids,
    check_name,
    check_seconds,
    check_text,
    check_whole,
)
from ray_pubsub.model.utf8 import valid_utf8


@pytest.mark.parametrize("value", [0, 6, 1.0, "1", None, True, math.nan, np.int64(3)])
def test_whole_numbers_within_bounds(value: Any) -> None:
    assert check_whole("count", 5, 1, 5) == 5
    with pytest.raises(SettingError, match="count: must be a whole number from 1 to 5, not"):
        check_whole("count", value, 1, 5)
    with pytest.raises(SettingError, match="of at least 1,000"):
        check_whole("count", 999, 1000)


@pytest.mark.parametrize("value", [-1, math.nan, "1", None, True, 11.0])
def test_lengths_of_time(value: Any) -> None:
    assert (check_seconds("wait", 0), check_seconds("wait", math.inf)) == (0.0, math.inf)
    with pytest.raises(SettingError, match="wait: must be a number of seconds of at least 0 and at most 10"):
        check_seconds("wait", value, most=10)
    with pytest.raises(SettingError, match="greater than 0"):
        check_seconds("wait", 0, zero=False)


def test_flags_and_choices() -> None:
    assert check_flag("deliver", False) is False
    for value in (1, None, "yes"):
        with pytest.raises(SettingError, match="deliver: must be True or False"):
            check_flag("deliver", value)
    assert check_choice("mode", "a", ("a", "b")) == "a"
    for choice in ("c", None, ["a"]):
        with pytest.raises(SettingError, match="mode: must be one of 'a', 'b', not"):
            check_choice("mode", choice, ("a", "b"))


def test_texts_and_names() -> None:
    assert (check_text("reason", ""), check_name("subscriber", "é")) == ("", "é")
    for value in (5, None, b"x", "\ud800"):
        with pytest.raises(SettingError, match="subscriber: must be"):
            check_name("subscriber", value)
    with pytest.raises(SettingError, match="must not be empty"):
        check_name("subscriber", "")


@pytest.mark.parametrize("identity", [None, 1.5, True, b"s", 2**63, -(2**63) - 1, "\ud800", np.int64(3)])
def test_what_is_no_id(identity: Any) -> None:
    with pytest.raises(SubscriptionIdError):
        check_id(identity)
    with pytest.raises(SubscriptionIdError):
        check_ids(["s", identity])
    assert not are_ids([identity])


def test_ids() -> None:
    for ids in (["s", "é"], [1, -(2**63), 2**63 - 1], ["s", 1], []):
        check_ids(ids)
    assert are_ids([1, 2]) and are_ids(["a"])
    assert not are_ids(["a", 1])  # each is looked at


def test_strings_that_are_not_utf8() -> None:
    raw = pa.array([b"good", None, b"\xff", "é".encode()], pa.binary())
    assert valid_utf8(raw.view(pa.string())).tolist() == [True, True, False, True]
    assert valid_utf8(pa.array(["a", None])).tolist() == [True, True]
