"""The parts of a back-test that need no Spark session: counting within bounds, the index kept by a worker."""

from __future__ import annotations

import datetime
import inspect
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import spark_bridge
from actors.mailboxes.event_content import unpack_event
from ray_pubsub import Limits, MatchIndex
from spark_bridge.backtesting import tally as tally_module
from spark_bridge.backtesting import worker
from spark_bridge.backtesting.given_subscriptions import given_subscriptions
from spark_bridge.backtesting.tally import MATCHES, Tally
from spark_bridge.backtesting.windows import Window
from spark_bridge.backtesting.worker import Counting, count_matches
from spark_bridge.backtesting.worker_index import KEPT, PackedIndex, pack, unpacked


def test_public_names() -> None:
    assert spark_bridge.__all__ == [
        "Backtest",
        "EventColumns",
        "LoadReport",
        "backtest",
        "bad_events",
        "event_columns",
        "load_subscriptions",
        "match_events",
    ]
    assert [name for name in spark_bridge.__all__ if not inspect.getdoc(getattr(spark_bridge, name))] == []
    methods = inspect.getmembers(spark_bridge.Backtest, inspect.isfunction)
    assert [name for name, method in methods if not name.startswith("_") and not method.__doc__] == []


def packed(*expressions: str) -> PackedIndex:
    index = MatchIndex()
    index.add_many(range(len(expressions)), expressions)
    return pack(index)


def test_the_settings_of_a_given_index_are_kept() -> None:
    index = MatchIndex("scan", ignore_case=True, limits=Limits(leaves=2000))
    index.add("s", "name = 'Ann'")
    given = given_subscriptions(index)
    assert (given.ids, unpacked(pack(given.index)).match({"name": "ANN"})) == (["s"], [0])
    assert given.index.limits == index.limits


def test_an_index_is_unpacked_once() -> None:
    first = packed("x = 1")
    assert unpacked(first) is unpacked(first)
    assert unpacked(PackedIndex(first.digest, b"never read again")) is unpacked(first)
    kept = unpacked(first)
    for number in range(KEPT):
        assert unpacked(packed(f"x = {number + 2}")).match({"x": number + 2}) == [0]
    assert unpacked(first) is not kept


@pytest.mark.parametrize(("pairs", "dense"), [(1 << 20, 1 << 22), (3, 1 << 22), (3, 0)])
def test_counts_handed_on_early_add_up_to_the_same(monkeypatch: pytest.MonkeyPatch, pairs: int, dense: int) -> None:
    for module in (tally_module, worker):
        monkeypatch.setattr(module, "PAIRS_AT_MOST", pairs)
    monkeypatch.setattr(tally_module, "DENSE_AT_MOST", dense)
    expressions = [f"x >= {number}" for number in range(20)]
    counting = Counting(packed(*expressions), 20, ("x",), False, Window.parse("day"), 2, 20)
    draw = np.random.default_rng(5)
    values, days = draw.integers(0, 20, 400), draw.integers(0, 6, 400)
    batches = [
        pa.record_batch([pa.array(values[at : at + 50]), pa.array(days[at : at + 50] * 86_400_000_000, pa.timestamp("us"))], names="ab")
        for at in range(0, 400, 50)
    ]  # fmt: skip
    parts = list(count_matches(iter(batches), counting))
    assert (len(parts) > 1) == (pairs == 3)
    counts = np.zeros((20, 6), dtype=np.int64)
    for row in pa.Table.from_batches(parts).to_pylist():
        if row["part"] == MATCHES:
            counts[row["subscription"], row["window"].day - 1] += row["number"]
    expected = [[int(((values >= number) & (days == day)).sum()) for day in range(6)] for number in range(20)]
    assert counts.tolist() == expected
    examples = [row for part in parts for row in part.to_pylist() if row["part"] == "example"]
    assert {row["subscription"]: row["position"] for row in reversed(examples)} == {
        number: int(np.flatnonzero(values >= number)[0]) for number in range(20)
    }
    assert len(examples) == 40


def test_the_first_examples_of_each() -> None:
    tally = Tally(5, 0, np.array([2, 1, 0]))
    assert tally.wanted(np.array([1, 0, 1, 2, 0, 4, 0])).tolist() == [1, 4, 0]
    assert tally.wanted(np.array([0, 1, 2])).tolist() == []


def test_reasons_are_bounded() -> None:
    tally = Tally(1, 0, np.zeros(0, dtype=np.int64))
    for number in range(1000):
        tally.add_bad(number, f"x: the decimal {number}.5 is odd")
        tally.add_bad(number, f"{'y' * number}: odd")
    assert len(tally.bad) == tally_module.REASONS_AT_MOST + 1
    assert sum(count for count, _, _ in tally.bad.values()) == 2000
    assert next(iter(tally.bad.values())) == (1000, 0, "x: the decimal 0.5 is odd")


def test_an_example_is_what_the_matcher_saw() -> None:
    batch: Any = pa.record_batch(
        {
            "far": pa.array([2**60], pa.timestamp("us", "no such zone")),
            "near": pa.array([1], pa.timestamp("us", "no such zone")),
            "absent": pa.array([None], pa.int8()),
            "amount": pa.array([Decimal("1.50")]),
            "m": pa.array([[("k", None), ("l", 2)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    moment = datetime.datetime(1970, 1, 1, microsecond=1, tzinfo=datetime.UTC)
    assert unpack_event(worker._packed(batch)) == {
        "far": "38504-08-17 21:30:06.846976",
        "near": moment,
        "amount": 1.5,
        "m.l": 2,
    }
