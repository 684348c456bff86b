"""Events against states of the clauses of a pivot block: the same matches as by the scan, and only where that is less work."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.event_codes import encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.pivot import clause_states, match_ways
from ray_pubsub.engines.pivot.clause_states import ClauseStates
from ray_pubsub.engines.pivot.match_ways import Way
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.model.dict_events import from_dicts, read_single
from tests.unit.engines.coded_tables import table_of
from tests.unit.engines.pivot.test_pivot_lists import event, rule


def block_of(texts: list[str]) -> PivotSegment:
    vocabulary = Vocabulary()
    return PivotSegment(table_of(texts, vocabulary), vocabulary)


def matched(block: PivotSegment, events: list[dict[str, Any]]) -> Hits:
    """Returns what states say, whatever they cost."""
    states = ClauseStates(block._coded(), block._lists.words, block._rows, block.owners)
    codes = encode_events(from_dicts(events), block.space, block.vocabulary)
    _, by_column, candidates = block._scratch.get(block._make_scratch)
    return states.match((codes.offsets, codes.column, codes.code), by_column, candidates)


@pytest.mark.parametrize("rows", [1024, 7])
@pytest.mark.parametrize(("values", "covered", "changes"), [(3, 64, 256), (60, 2, 256), (2000, 64, 256), (60, 64, 3)])
def test_every_kind_of_test_against_the_scan(
    values: int, covered: int, changes: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with few states of each column, with columns that have none, and with few of which changes may be listed."""
    monkeypatch.setattr(clause_states, "MOST_COVERED", covered)
    monkeypatch.setattr(clause_states, "MOST_CHANGES", changes)
    monkeypatch.setattr(clause_states, "MOST_ROWS", rows)
    random = Random(values)
    texts = [rule(random, values) for _ in range(300)]
    texts += [f"a != 'v{n % values}' and a != 'v{n % 7}' and (a < 'v{n}' or a > 'v2') and b > {n}" for n in range(30)]
    batch = [event(random, values) for _ in range(150)]
    hits = matched(block_of(texts), [*batch, {}])
    scan = MatchIndex("scan")
    scan.add_many(range(len(texts)), texts)
    expected = scan.match_many([*batch, {}])
    for place in range(len(batch) + 1):
        found = sorted(set(hits.slots[hits.offsets[place] : hits.offsets[place + 1]].tolist()))
        assert found == sorted(expected[place])
    assert len(hits.slots) > 0


def crowd(count: int) -> list[str]:
    """Rules of which most events match many."""
    return [f"a != {n % 90} and b between {n % 40} and {n + 100} and c not in ({n % 7}, 8)" for n in range(count)]


def test_crowded_events_are_matched_by_states_and_others_by_lists() -> None:
    texts = [*crowd(3000), *(f"d = {n}" for n in range(3000))]
    index = MatchIndex()
    index.add_many(range(len(texts)), texts)
    index._books.engine.seal()  # type: ignore[attr-defined]
    index.wait_for_merges()
    [block] = index._books.engine.snapshot.blocks  # type: ignore[attr-defined]
    assert isinstance(block, PivotSegment)
    crowded, calm = {"a": 5, "b": 45, "c": 1}, {"d": 7}
    assert block._ways.states is not None, "the model expects crowded events"
    assert block._ways.states.nbytes < index.nbytes
    first = index.match(crowded)
    assert index.match(calm) == [3007] and index.match({**crowded, "d": 7}) == [*first, 3007]
    plan = index.explain(crowded)
    assert "flipped" in str(plan) and plan.matches == len(first)
    assert "flipped" not in str(index.explain(calm))
    batch = index.match_many([crowded, calm, {}] * 40)
    assert [sorted(batch[place]) for place in range(3)] == [first, [3007], []]


@pytest.mark.parametrize("at_once", [match_ways.MOST_AT_ONCE, 0.0])
def test_states_are_made_when_they_would_have_saved_their_making(
    at_once: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the event that it is time at, or for large blocks by a thread."""
    monkeypatch.setattr(match_ways, "MOST_AT_ONCE", at_once)
    block = block_of(crowd(3000))
    events = [read_single({"a": n % 90, "b": n, "c": n % 9}, None) for n in range(1000)]
    first = [sorted(block.match_single(each).tolist()) for each in events[:10]]
    assert block._ways.states is None
    for each in events:
        block.match_single(each)
    block.wait()
    assert block._ways.states is not None
    assert [sorted(block.match_single(each).tolist()) for each in events[:10]] == first


def test_a_block_is_matched_without_states_if_there_is_no_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def exhausted(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(match_ways, "MOST_AT_ONCE", 0.0)
    monkeypatch.setattr(match_ways, "ClauseStates", exhausted)
    block, crowded = block_of(crowd(3000)), from_dicts([{"a": 5, "b": 45, "c": 1}])
    first = block.match(crowded).slots.tolist()
    for _ in range(1000):
        block.match(crowded)
    block.wait()
    assert block.match(crowded).slots.tolist() == first
    assert caplog.text.count("no memory for states of 3000 clauses") == 1


def test_a_batch_of_many_matches_is_matched_by_states() -> None:
    block = block_of(crowd(2000))
    events = [{"a": n % 95, "b": n % 140, "c": n % 9} for n in range(2000)]
    codes = encode_events(from_dicts(events), block.space, block.vocabulary)
    cells = (codes.offsets, codes.column, codes.code)
    by_lists = block._match_lists(cells)
    found = [block.match(from_dicts(events)) for _ in range(4)][-1]
    assert block._ways.for_batch(cells) is Way.STATES
    assert (found.offsets == by_lists.offsets).all()
    for first, last in zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True):
        assert (np.sort(found.slots[first:last]) == np.sort(by_lists.slots[first:last])).all()


def test_blocks_that_gain_nothing_make_no_states() -> None:
    """Nearly every clause would have to be compared."""
    block = block_of([f"a != {n} and x{n % 300} != 5 and y{n % 300} != 3" for n in range(2000)])
    events = from_dicts([{"a": n, **{f"x{k}": 6 for k in range(300)}} for n in range(70)])
    for _ in range(5):
        block.match(events)
    assert block._ways.states is None


def test_threads_that_make_states_at_once_agree() -> None:
    block = block_of(crowd(3000))
    event = from_dicts([{"a": 5, "b": 45, "c": 1}])
    expected = sorted(block.match(event).slots.tolist())
    found: list[list[int]] = []

    def reader() -> None:
        found.append([sorted(block.match(event).slots.tolist()) for _ in range(300)][-1])

    threads = [threading.Thread(target=reader) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert block._ways.states is not None and found == [expected] * 4
