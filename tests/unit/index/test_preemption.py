"""A batch that is matched part by part, because its thread may have to give way, has the matches that it has in one go."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ray_pubsub import MatchIndex, preemption
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits, Segment
from ray_pubsub.engines.dense import transposed
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.engines.pivot import batch_masks
from ray_pubsub.engines.pivot.clause_states import PAIRS
from ray_pubsub.engines.pivot.match_ways import MatchWays, Way
from ray_pubsub.engines.pivot.segment import EVENT_WORK, PivotSegment
from ray_pubsub.kernels.dense.transposed_rows import GROUP
from ray_pubsub.kernels.pivot.batch_masks import CHUNK, ROOM
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.preemption import offer, preemptible
from ray_pubsub.workspace import Workspace
from tests.unit.engines.coded_tables import table_of

EVENTS = 700


def assert_same_in_parts(segment: Segment, offers: int) -> None:
    """`offers`: at least this often the match offers to give way."""
    random, offered = Random(3), [0]
    batch = from_dicts([{"x": random.randrange(1000), "y": random.randrange(4)} for _ in range(EVENTS)])
    whole = segment.match(batch)

    def count() -> None:
        offered[0] += 1

    with preemptible(count):
        parts = segment.match(batch)
    assert len(whole.slots) > 0
    assert sorted_by_event(parts) == sorted_by_event(whole)
    assert offered[0] >= offers


def use_workspace(own: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray_pubsub.workspace._workspaces.get", lambda _: own)


def sorted_by_event(hits: Hits) -> list[tuple[int, int]]:
    row = np.repeat(np.arange(len(hits.offsets) - 1), np.diff(hits.offsets))
    return sorted(zip(row.tolist(), hits.slots[: hits.offsets[-1]].tolist(), strict=True))


@pytest.mark.parametrize("small_room", [False, True])
def test_dense(small_room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small_room:
        monkeypatch.setattr(transposed, "PAIRS", 10)
        use_workspace(Workspace(), monkeypatch)
    monkeypatch.setattr(preemption, "PART", GROUP * EVENTS)
    texts = [f"x between {low % 990} and {low % 990 + 9} and y >= {low % 3}" for low in range(2 * GROUP + 100)]
    vocabulary = Vocabulary()
    assert_same_in_parts(DenseSegment(table_of(texts, vocabulary), vocabulary), offers=3)


@pytest.mark.parametrize("small_room", [False, True])
def test_pivot_lists_by_masks_of_events(small_room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small_room:
        monkeypatch.setattr(batch_masks, "PAIRS", 10)
        use_workspace(Workspace(), monkeypatch)
    monkeypatch.setattr(preemption, "PART", 100 * EVENTS)
    monkeypatch.setattr(MatchWays, "for_batch", lambda *_: Way.MASKS)
    assert EVENTS < CHUNK < ROOM
    vocabulary = Vocabulary()
    texts = [f"x in ({low % 997}, {low % 991}) and y != {low % 4}" for low in range(950)]
    assert_same_in_parts(PivotSegment(table_of(texts, vocabulary), vocabulary), offers=10)


def test_pivot_lists_event_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "PART", 50 * EVENT_WORK)
    monkeypatch.setattr(MatchWays, "for_batch", lambda *_: Way.LISTS)
    vocabulary = Vocabulary()
    texts = ["y <= 2"] * 200 + [f"x = {value}" for value in range(1000)]  # more matches than there is room for at first
    assert_same_in_parts(PivotSegment(table_of(texts, vocabulary), vocabulary), offers=EVENTS // 50)


def test_pivot_lists_by_states_of_clauses(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary()
    block = PivotSegment(table_of([f"x > {low} and y != {low % 4}" for low in range(950)], vocabulary), vocabulary)
    states = block._ways.states_for(np.inf)
    assert states is not None
    monkeypatch.setattr(preemption, "PART", int(50 * PAIRS * states.cost))
    monkeypatch.setattr(MatchWays, "for_batch", lambda *_: Way.STATES)
    assert_same_in_parts(block, offers=EVENTS // 60)


def test_between_blocks() -> None:
    index = MatchIndex("rein")
    index.add_many(range(2000), ["x > 1"] * 2000)
    index.add_many(range(2000, 4000), ["x > 2"] * 2000)
    offered = []
    with preemptible(lambda: offered.append(1)):
        assert len(index.match_many([{"x": 2}, {"x": 3}])) == 6000
    assert len(offered) == 2
    offer()  # outside of the block nobody is asked
    assert len(offered) == 2
