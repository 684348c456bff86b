"""Predicates that Python parses for the kernels are accepted, refused and matched as they are in a text that is parsed as a whole."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ray_pubsub import Limits, MatchIndex
from ray_pubsub.index.bulk import text_batch

PREDICATES = [
    "list_contains(tags, 'a')", "exists(items, price < 5 and not (color = 'red' or n in (1, 2)))", "'a' = any(tags)", "1 < all(l1)",
    "ip_in(src, '10.0.0.0/8', '::/0')", "x < y", "x in (1, y, z)", "x not between y and 5", "length(s) = x", "starts_with(s, 'a')",
    "not contains(s, 'b')", "(list_contains(tags, 'a')) is null", "(x = 5 or y = 2) = true", "(x = 1)", "list_has_all(tags, ['a', 'b'])",
    "x = 5", "b", "s like '%a%'", "y is null", "case when x > 1 and y < 3 then true end", "coalesce(b, x = 1)", "x + 1 = y",
    "geo_in_box(x, y, 0, 0, 5, 5)", "5 = 5", "null = x", "exists(items, exists(items, n = 2)) = false", "lower(s) in ('a', s)",
    "s ilike '%A' or x = z", "not not x = 2", "list_contains(tags, s)", "true", "(not (b))", "if(b, x, y) > z", "x between 1 and z and b",
]  # fmt: skip
VALUES = [1, 2, 5, 0.5, "a", "ab", "", True, None, [1, 2], ["a", "b"]]


def composed(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.25:
        return random.choice(PREDICATES)
    parts = [composed(random, depth - 1) for _ in range(random.randint(1, 3))]
    around = random.choice(["({})", "not ({})", "( {} )", "((({})))", "{}"])
    return around.format(random.choice([" and ", " or "]).join(parts))


def event(random: Random) -> dict[str, Any]:
    found: dict[str, Any] = {name: random.choice(VALUES) for name in ("x", "y", "z", "s", "l1", "b")}
    found["tags"] = random.choice([[], ["a"], ["b", 1], "a"])
    found["items"] = random.choice([[], [{"price": 3, "color": "red", "n": 2}]])
    found["src"] = random.choice(["10.1.2.3", "::1"])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_any_composition_is_what_it_is_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_batch, "TEXTS_TO_LOAD_KERNELS", 1)
    random = Random(seed)
    deepest, most = (100, 10_000) if seed == 0 else (random.randint(2, 12), random.randint(1, 12))
    limits = Limits(nesting_depth=deepest, leaves=most, clauses=random.choice([1, 64]))
    texts = [composed(random, random.randint(0, 4)) for _ in range(80)]
    together, alone = MatchIndex(limits=limits), MatchIndex("scan", limits=limits)
    refused = [
        [(each.position, str(each.error)) for each in index.add_many(range(80), texts).rejections]
        for index in (together, alone)
    ]
    assert refused[0] == refused[1] and (seed == 0) == (not refused[0])
    events = [event(random) for _ in range(20)]
    assert [sorted(found) for found in together.match_many(events)] == [
        sorted(found) for found in alone.match_many(events)
    ]
