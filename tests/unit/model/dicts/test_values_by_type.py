"""Columns of one type or of several are converted all at once: as if each value were read on its own."""

from __future__ import annotations

import datetime
import enum
import random
import zoneinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.values import Value, ValueProblem, read_value

ZURICH, PLUS_TWO = zoneinfo.ZoneInfo("Europe/Zurich"), datetime.timezone(datetime.timedelta(hours=2, microseconds=7))
MOMENT = datetime.datetime(2024, 7, 1, 12, 30, 15, 123456)


class Text(str):
    """A string that shows itself as another."""

    def __str__(self) -> str:
        return "shown"


class Level(enum.IntEnum):
    HIGH = 3


class Color(enum.StrEnum):
    RED = "red"


POOL: dict[str, list[Any]] = {
    "int": [0, 1, -7, 2**53 - 1],
    "large int": [2**53 + 1, -(2**63), 2**63 - 1],
    "beyond": [2**63, -(2**70), 10**400],
    "float": [0.5, -0.0, 3.0, 1e300, float("inf"), -float("inf"), float("nan"), 5e-324, 2.0**53, -(2.0**63)],
    "bool": [True, False],
    "str": ["", "a", "é", "x\0y"],
    "surrogate": ["\ud800", "a"],
    "str subclass": [Text("a"), Text("b\0"), Color.RED, np.str_("c")],
    "int subclass": [Level.HIGH],
    "datetime": [MOMENT, datetime.datetime.min, datetime.datetime.max, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "aware": [MOMENT.replace(tzinfo=zone) for zone in (datetime.UTC, PLUS_TWO, ZURICH)],
    "aware at the ends": [datetime.datetime.min.replace(tzinfo=PLUS_TWO), datetime.datetime.max.replace(tzinfo=PLUS_TWO)],
    "twice": [datetime.datetime(2024, 10, 27, 2, 30, tzinfo=ZURICH, fold=fold) for fold in (0, 1)],
    "date": [datetime.date(1970, 1, 1), datetime.date.min, datetime.date.max],
    "decimal": [Decimal(text) for text in ("0", "-0", "0.00", "1.5", "0.1", "100", "1E+3", "12345678901.2345")],
    "odd decimal": [
        Decimal(text)
        for text in ("NaN", "sNaN", "-Infinity", "1E+500", "1E-500", "1E-310", "0E-400", "9223372036854775807", "9E+15",
                     "9223372036854775808", "0.1234567890123456789", "9007199254740993.5", "0.100000000000000000")
    ],
    "numpy": [np.int8(-3), np.uint64(7), np.int64(2**62), np.float32(0.1), np.float64("nan"), np.float16(2), np.bool_(True)],
    "numpy beyond": [np.uint64(2**63)],
    "numpy time": [np.datetime64("1969-12-31T23:59:59.999999"), np.datetime64("NaT", "us"), np.datetime64("2024-05-06")],
    "numpy time in nanoseconds": [np.datetime64(-1, "ns"), np.datetime64(1999, "ns")],
    "numpy time beyond": [np.datetime64(2**62, "s"), np.datetime64(3, "s")],
    "pandas time": [pd.Timestamp(-1), pd.Timestamp("2024-05-06 07:08:09.123456789", tz="Asia/Tokyo"), pd.Timestamp(7)],
    "pandas time beyond": [pd.Timestamp(np.datetime64("20000-01-01", "s")), pd.NaT, pd.NA],
    "absent": [None, {"k": 1}, {}],
    "list": [[1, "a", None, 2.5], [], ["x"], [True], [MOMENT], [2**60, 0.5]],
    "tuple or array": [(1, 2), np.array([1.5, 2.0]), np.array(["a"]), np.array([], dtype=np.int8), np.array(5)],
    "array of times": [np.array(["2024-01-01"], "datetime64[D]"), np.array([[1, 2]])],
    "list of objects": [[{"a": 1, "b": "x"}, {"a": 2.5}], [{}], [{"a": None, "": 1}, {"b": Color.RED}]],
    "list of nested objects": [[{"a": {"b": 1}}], [{"a": [1]}], [{"a": 1}, 2, None], [[1], []]],
    "bad list": [[b"x"], [{"a": b""}], [{1: 2}], [{"a.b": 1, "a": {"b": 2}}], [2**70], ["\ud800"]],
    "bad": [b"x", object(), 1j, datetime.timedelta(1), np.timedelta64(1, "s"), np.longdouble(1), datetime.time(1)],
}  # fmt: skip


def one_by_one(column: list[Any]) -> tuple[list[dict[str, Value]], list[tuple[int, str]]]:
    rows: list[dict[str, Value]] = []
    problems = []
    for place, raw in enumerate(column):
        rows.append({})
        try:
            value = None if isinstance(raw, dict) else read_value(raw)
        except ValueProblem as problem:
            problems.append((place, str(problem)))
            continue
        if value is not None:
            rows[-1]["x"] = value
    return rows, problems


def check(column: list[Any]) -> None:
    events = [{} if raw is None else {"x": raw} for raw in column]
    batch = from_dicts(events, None, AttributeTree(["x"]), strict=False)
    expected, problems = one_by_one(column)
    assert batch.rows() == expected
    assert [(error.position, error.reason) for error in batch.warnings] == problems
    assert all(lane.rows is None or (lane.rows[1:] > lane.rows[:-1]).all() for lane in batch.lanes)
    assert len({lane.kind for lane in batch.lanes}) == len(batch.lanes)


@pytest.mark.parametrize("kind", POOL)
def test_a_column_of_one_kind(kind: str) -> None:
    check(POOL[kind] * 2)
    check([None, *POOL[kind], None])
    for raw in POOL[kind]:
        check([raw, raw])


@pytest.mark.parametrize("kind", POOL)
def test_a_column_of_several_kinds(kind: str) -> None:
    chosen = random.Random(kind)
    for _ in range(12):
        kinds = [kind, *chosen.sample(list(POOL), chosen.randint(1, 3))]
        column = [raw for each in kinds for raw in POOL[each]]
        chosen.shuffle(column)
        check(column)
