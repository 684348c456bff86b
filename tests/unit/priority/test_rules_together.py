"""Rules that come together, or are long, are compiled by kernels; they mean and cost what they do one by one."""

from __future__ import annotations

import pytest

import ray_pubsub
from ray_pubsub.errors import ExpressionError
from ray_pubsub.index.bulk import text_batch
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.priority.compilation import MOST_PIECES

LEVELS = ["low", "normal", "high"]
TEXTS = [
    "x = 5",
    "x in (1, 2, 7) and y != 3",
    "x not between 2 and 4",
    "s like 'ab%' or s is null",
    "s like '%b%' and x < 9",
    "s in ('a', 'abc') and not (y > 2 or x = 6)",
    "s ilike 'AB%' and x < 8",
    "b and x >= 2.5",
    "x + y > 9",
    "x = ",
    "(x = 1 or y = 2) and (x = 3 or y = 4)",
]
EVENTS = [
    {"x": x, "y": y, **({} if s is None else {"s": s}), "b": x % 2 == 0}
    for x in range(10)
    for y in (1, 3, 4)
    for s in (None, "abc", "xb")
]


def test_together_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = ray_pubsub.PriorityRules(LEVELS)
    for number, text in enumerate(TEXTS):
        try:
            alone.add(number, LEVELS[1 + number % 2], text)
        except ExpressionError as error:
            refused = number, str(error)
    monkeypatch.setattr(text_batch, "TEXTS_FOR_KERNELS", 1)
    monkeypatch.setattr(text_batch, "TEXTS_TO_LOAD_KERNELS", 1)
    together = ray_pubsub.PriorityRules(LEVELS)
    report = together.add_many(range(len(TEXTS)), [LEVELS[1 + number % 2] for number in range(len(TEXTS))], TEXTS)
    assert [(each.position, str(each.error)) for each in report.rejections] == [refused]
    assert list(together) == list(alone)
    assert together.priorities(EVENTS) == alone.priorities(EVENTS)
    assert [together.expression(number) for number in together] == [alone.expression(number) for number in alone]


def test_bins_are_exact_where_that_takes_a_few_times_the_signatures() -> None:
    """What a cell says is then certain. 61 bins to the third power are more signatures than so few rules get without it."""
    rules = ray_pubsub.PriorityRules(LEVELS, cache=0)
    texts = [
        " and ".join(f"{name} >= {low} and {name} < {low + 1}" for name, low in zip("xyz", lows, strict=True))
        for number in range(180)
        if (lows := (number % 60, number * 7 % 60, number * 11 % 60))
    ]
    rules.add_many(range(len(texts)), ["high"] * len(texts), texts)
    events = [{"x": n % 60 + 0.5, "y": n * 7 % 60 + 0.5, "z": n * 11 % 60 + 0.5} for n in range(60)]
    assert set(rules.priorities(events)) == {"high"}
    stats = rules.stats()
    assert stats.vectors[0].bins == (61, 61, 61)
    assert (stats.confirmation.sure, stats.confirmation.asked) == (60, 0)


def test_a_large_set_is_matched_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """No box is worked out for any of its constants, and it is not parsed in Python."""

    def refuse(self: ShapeCache, text: str) -> None:
        raise AssertionError("parsed in Python")

    rules = ray_pubsub.PriorityRules(LEVELS)
    rules.add("small", "normal", "x = 5")
    monkeypatch.setattr(ShapeCache, "parse", refuse)
    rules.add("large", "high", f"x in ({', '.join(str(2 * number) for number in range(MOST_PIECES + 1))})")
    assert rules._keeper.exact.keys() == {1}
    assert rules.priorities([{"x": 4}, {"x": 5}, {"x": 7}]) == ["high", "normal", "low"]
