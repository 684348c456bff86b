"""Strings whose patterns are remembered: bounded, given up where nothing repeats, and never another answer."""

from __future__ import annotations

from ray_pubsub import MatchIndex
from ray_pubsub.columns.opaque.remembered_strings import LONGEST, MOST, REST, TRIAL, CodesOfString, RememberedStrings

NOTHING: CodesOfString = ([], [])


def looked_up(remembered: RememberedStrings, texts: list[str]) -> int:
    hits = 0
    for text in texts:
        if remembered.get(text) is None:
            remembered.put(text, NOTHING)
        else:
            hits += 1
    return hits


def test_what_repeats_is_remembered() -> None:
    remembered = RememberedStrings()
    assert looked_up(remembered, ["a", "b", "a", "a", "b"]) == 3
    remembered.put("x" * (LONGEST + 1), NOTHING)
    assert len(remembered) == 2


def test_memory_is_bounded() -> None:
    remembered = RememberedStrings()
    for number in range(3 * MOST):
        remembered.put(str(number), NOTHING)
    assert len(remembered) <= MOST


def test_where_nothing_repeats_it_rests_and_tries_again() -> None:
    remembered = RememberedStrings()
    assert looked_up(remembered, [f"one {number}" for number in range(TRIAL + 1)]) == 0
    assert len(remembered) == 0
    assert looked_up(remembered, ["a"] * REST) == 0
    assert looked_up(remembered, ["a"] * 10) >= 9


def test_single_events_that_repeat_strings_match_as_before() -> None:
    texts = [f"p like '%{number % 50}x%' and q not like 'ab{number}%'" for number in range(1500)]
    index, plain = MatchIndex(), MatchIndex("scan")
    for each in (index, plain):
        each.add_many(range(len(texts)), texts)
    for event in ({"p": "1x 2x", "q": "ab7"}, {"p": "49x", "q": "cd"}, {"p": "none", "q": "ab11"}):
        right = sorted(plain.match(event))
        assert [sorted(index.match(event)) for _ in range(3)] == [right] * 3
