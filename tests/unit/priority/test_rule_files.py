"""Saved and pickled rules: what goes in comes out, and a file that is not whole is refused whole."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import Limits, MatchIndex, PriorityRules
from ray_pubsub.errors import IndexFileError, SettingError
from ray_pubsub.priority import Bins, Categories, Function, Quantiles, Steps
from tests.unit.priority.plain_rules import LEVELS

EVENTS: list[dict[str, Any]] = [{"x": value / 2, "y": value % 5, "s": "abc"[value % 3]} for value in range(60)] + [{}]


def tens(value: Any) -> int:
    return int(value) // 10


def some_rules(**settings: Any) -> PriorityRules:
    rules = PriorityRules(LEVELS, **settings)
    rules.add("first", "normal", " x  >  5 ")
    rows = {
        "id": [7, 7, 3, 9],
        "level": ["high", "high", "critical", "low"],
        "attribute": ["x", "y", "y", "x"],
        "low": [2**53 + 1, None, 3, 1],
        "high": [None, 4, 3, 2],
        "low_closed": [False, True, True, True],
    }
    rules.add_predicates(pa.table(rows))
    rules.add(5, "high", "s regexp '^a' and x < 10")
    rules.add("gone", "critical", "true")
    rules.add_predicates(
        pa.table(
            {"id": ["s", "t"], "level": ["high", "normal"], "attribute": ["x", "x"], "low": [1.5, 8], "high": [2.5, 9]}
        )
    )
    rules.remove("gone")
    rules.remove("t")
    rules.add("it's \U0001f600", "normal", "s = '\U0001f600'")
    return rules


@pytest.mark.parametrize("confirm", [True, False])
def test_round_trip(confirm: bool, tmp_path: Path) -> None:
    rules = some_rules(
        confirm=confirm, false_positive_rate=0.003, signatures=1 << 14, vectors=3, cache=100, limits=Limits(leaves=9)
    )
    rules.save(tmp_path / "rules")
    for loaded in (PriorityRules.load(tmp_path / "rules"), pickle.loads(pickle.dumps(rules))):
        assert list(loaded) == list(rules)
        assert [loaded.level(each) for each in rules] == [rules.level(each) for each in rules]
        assert [loaded.expression(each) for each in rules] == [rules.expression(each) for each in rules]
        assert loaded.levels == rules.levels
        for name in (
            "confirm",
            "false_positive_rate",
            "signatures",
            "vectors",
            "cache_entries",
            "limits",
            "discretizers",
        ):
            assert getattr(loaded, name) == getattr(rules, name), name
        if confirm:
            assert loaded.priorities(EVENTS) == rules.priorities(EVENTS)
        assert loaded.measure(EVENTS).matched == rules.measure(EVENTS).matched > 0
        loaded.add("later", "critical", "x = 0")
        assert loaded.priority({"x": 0}) == "critical"


def test_an_empty_set_of_rules(tmp_path: Path) -> None:
    PriorityRules(LEVELS).save(tmp_path / "rules")
    loaded = PriorityRules.load(tmp_path / "rules")
    assert len(loaded) == 0
    assert loaded.priority({"x": 1}) == "low"


def test_discretizers_are_kept(tmp_path: Path) -> None:
    import datetime

    discretizers = {
        "x": Bins([1, 2.5, 2**60]),
        "y": Steps(0.5, 1),
        "s": Categories(["a", "b"]),
        "t": Bins([datetime.datetime(2024, 5, 1)]),
        "z": Quantiles(7),
    }
    rules = some_rules(discretizers=discretizers)
    rules.save(tmp_path / "rules")
    assert PriorityRules.load(tmp_path / "rules").discretizers == discretizers
    assert pickle.loads(pickle.dumps(rules)).discretizers == discretizers


def test_a_function_must_be_given_again(tmp_path: Path) -> None:
    discretizers = {"x": Function(tens, 5, monotone=True)}
    rules = some_rules(discretizers=discretizers)
    rules.save(tmp_path / "rules")
    with pytest.raises(SettingError, match="'x' has a function"):
        PriorityRules.load(tmp_path / "rules")
    loaded = PriorityRules.load(tmp_path / "rules", discretizers=discretizers)
    assert loaded.priorities(EVENTS) == rules.priorities(EVENTS)
    assert pickle.loads(pickle.dumps(rules)).priorities(EVENTS) == rules.priorities(EVENTS)


def test_signatures_are_the_same_in_every_process(tmp_path: Path) -> None:
    """The hash depends on nothing but attributes, bins and cell: filters of equal rules are equal bit by bit."""
    first, second = some_rules(confirm=False), some_rules(confirm=False)
    first.rebuild()
    second.rebuild()
    bits = [each._keeper.instances.filters.bits for each in (first, second)]
    assert np.array_equal(bits[0], bits[1])
    assert bits[0].any()
    assert [vector.discretizer for vector in first.stats().vectors] == [
        vector.discretizer for vector in second.stats().vectors
    ]


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    some_rules().save(path)
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 0x40
        path.write_bytes(bytes(damaged))
        with pytest.raises(IndexFileError):
            PriorityRules.load(path)
    for length in (0, 10, 40, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(IndexFileError):
            PriorityRules.load(path)
    path.write_bytes(content + b"x")
    with pytest.raises(IndexFileError, match="after its end"):
        PriorityRules.load(path)


def test_files_of_another_kind_are_told_apart(tmp_path: Path) -> None:
    some_rules().save(tmp_path / "rules")
    MatchIndex().save(tmp_path / "index")
    with pytest.raises(IndexFileError, match="not a file of priority rules"):
        PriorityRules.load(tmp_path / "index")
    with pytest.raises(IndexFileError, match="not a saved"):
        MatchIndex.load(tmp_path / "rules")
    with pytest.raises(IndexFileError, match="cannot be read"):
        PriorityRules.load(tmp_path / "nothing")
    with pytest.raises(IndexFileError, match="cannot be written"):
        some_rules().save(tmp_path / "no folder" / "rules")
