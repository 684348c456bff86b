"""Engines by name, and their options: they change the time, never the answer; and what is wrong is said."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.errors import SettingError

TEXTS = [f"x between {n % 50} and {n % 50 + n % 17} and y {'<' if n % 2 else '>='} {n % 23}" for n in range(3000)]
EVENTS = [{"x": x, "y": x % 20} for x in range(0, 60, 7)]


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("dexin", {"cache": 0}),
        ("dexin", {"cache": 5}),
        ("dexin", {"exclusive_only": True}),
        ("dexin", {"cache": 0, "paper_costs": True}),
        ("gem", {"cache": 10, "tau": 80, "paper_costs": True, "uniform_rates": True}),
        ("dexin", {"inclusive_only": True, "cache": 0}),
        ("gem", {"cache": 0, "tau": 1}),
        ("gem", {"cache": 7, "tau": 33}),
        ("opindex", {"segments": 1, "bits": 1}),
        ("opindex", {"segments": 3, "bits": 64}),
        ("rein", {"buckets": 1}),
        ("rein", {"buckets": 7}),
    ],
)
def test_the_answer_is_the_same(engine: str, options: dict[str, Any]) -> None:
    index, scan = MatchIndex(engine, **options), MatchIndex("scan")
    for each in (index, scan):
        each.add_many(range(len(TEXTS)), TEXTS, atomic=True)
    expected = [sorted(found) for found in scan.match_many(EVENTS)]
    assert [sorted(found) for found in index.match_many(EVENTS)] == expected
    again = pickle.loads(pickle.dumps(index))
    assert (again.engine, again.options) == (engine, options)


@pytest.mark.parametrize(
    ("engine", "options", "setting", "says"),
    [
        ("auto", {"cache": 4}, "cache", "is no option of the engine 'auto'; it has none"),
        ("gem", {"exclusive_only": True}, "exclusive_only", "it has cache, tau"),
        ("dexin", {"cache": -1}, "cache", "must be a number from 0 to 4,096, not -1"),
        ("dexin", {"cache": True}, "cache", "must be a number"),
        ("dexin", {"exclusive_only": 1}, "exclusive_only", "must be True or False, not 1"),
        ("dexin", {"exclusive_only": True, "inclusive_only": True}, "exclusive_only", "exclude each other"),
        ("gem", {"tau": 0}, "tau", "from 1 to 4,096"),
        ("opindex", {"bits": 65}, "bits", "from 1 to 64"),
        ("percolator", {}, "engine", "choose one of 'auto', 'dexin', 'gem', 'opindex', 'rein', 'scan'"),
        ("auto", {"merges": "later"}, "merges", "must be one of 'inline', 'background', not 'later'"),
    ],
)
def test_what_is_wrong_is_said(engine: str, options: dict[str, Any], setting: str, says: str) -> None:
    with pytest.raises(SettingError) as caught:
        MatchIndex(engine, **options)
    assert caught.value.setting == setting
    assert says in str(caught.value)
