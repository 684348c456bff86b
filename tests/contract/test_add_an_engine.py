"""CONTRIBUTING's recipe "Add an engine", followed with a toy: a segment, a row in the table, and everything above knows the engine."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ray_pubsub import MatchIndex
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.coded_clauses import CodedClauses
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.engine_entry import EngineEntry, Estimate, Number
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import Trace, Traced
from ray_pubsub.engines.papers.coded_segment import CodedSegment
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.engines.selection.cost_model import CostModel
from ray_pubsub.engines.selection.machine import TYPICAL
from ray_pubsub.engines.selection.segment_choice import choose_segment
from ray_pubsub.errors import SettingError
from tests.contract.test_cases import CASES, CROWDS, index_of
from tests.inside_of_index import segmented


class ToySegment(CodedSegment):
    """Compares every test of every clause with every event, `step` clauses at a time."""

    engine = "toy"

    def __init__(
        self,
        clauses: ClauseTable | CodedClauses,
        vocabulary: Vocabulary,
        frequency: Frequency = None,
        *,
        step: int = 1000,
    ) -> None:
        self._step = step
        super().__init__(clauses, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        self._index = np.repeat(np.arange(len(self)), np.diff(coded.offsets))

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        found = [self._holding(codes, event) for event in range(len(codes.offsets) - 1)]
        offsets = np.concatenate([[0], np.cumsum([len(numbers) for numbers in found], dtype=np.int64)])
        return offsets, np.concatenate([np.empty(0, np.int32), *found]).astype(np.int32)

    def _holding(self, codes: EventCodes, event: int) -> NDArray[Any]:
        coded, cells = self.coded, slice(*codes.offsets[event : event + 2])
        values = np.zeros(coded.space.columns, np.int32)
        values[codes.column[cells]] = codes.code[cells]
        value, holds = values[coded.column], np.ones(len(self), bool)
        failing = (value < coded.low) | (value > coded.high)
        for start in range(0, len(self), self._step):
            tests = slice(*coded.offsets[[start, min(start + self._step, len(self))]])
            holds[self._index[tests][failing[tests]]] = False
        return np.flatnonzero(holds)

    def _trace(self, codes: EventCodes) -> Traced:
        trace = Trace("all clauses", len(self))
        trace.numbers = self._match(codes)[1]
        trace.add("", "every test compared", len(trace.numbers))
        return Traced(Partitions("whole", 1, 0, len(self), 0), [trace], len(self))


@pytest.fixture(autouse=True)
def row() -> Iterator[None]:
    ENGINES["toy"] = EngineEntry(
        ToySegment, options={"step": Number(1, 10_000)}, cost=lambda given, machine: Estimate(1e-3, 1e-3)
    )
    yield
    del ENGINES["toy"]


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("number", range(len(CASES)), ids=[case["name"] for case in CASES])
def test_every_case_of_the_contract_suite(crowd: str, number: int) -> None:
    index, items = index_of("toy", crowd, number), CASES[number]["events"]
    assert [sorted(index.match(item["event"])) for item in items] == [item["matches"] for item in items]
    result = index.match_many([item["event"] for item in items])
    assert [sorted(result[place]) for place in range(len(items))] == [item["matches"] for item in items]


def filled(**options: Any) -> MatchIndex:
    index = MatchIndex("toy", options=options)
    assert index.add_many(range(3000), [f"x >= {number} and x <= {number + 10}" for number in range(3000)])
    return index


def test_its_options_are_checked() -> None:
    with pytest.raises(SettingError, match="must be a number from 1 to 10,000, not 0"):
        MatchIndex("toy", options={"step": 0})
    with pytest.raises(SettingError, match="it has step"):
        MatchIndex("toy", cache=5)
    assert filled(step=7).match({"x": 2}) == [0, 1, 2]


def test_it_is_saved_and_loaded_with_its_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(step=7).save(tmp_path / "index")
    loaded = MatchIndex.load(tmp_path / "index")
    assert (loaded.engine, loaded.options) == ("toy", {"step": 7})
    assert loaded.match({"x": 2}) == [0, 1, 2]
    assert loaded.stats().blocks_by_engine() == {"toy": 1}
    assert pickle.loads(pickle.dumps(loaded)).match({"x": 2}) == [0, 1, 2]


def test_it_is_explained_and_counted() -> None:
    index = filled()
    (segment,) = index.explain({"x": 2}).segments
    assert (segment.engine, segment.matches, segment.steps[-1].method) == ("toy", 3, "every test compared")
    assert index.stats().clauses_by_engine() == {"toy": 3000}


def test_auto_compares_it_with_the_others_by_its_cost() -> None:
    (block,) = segmented(filled()).snapshot.blocks
    table, vocabulary = block.table(), block._vocabulary  # type: ignore[attr-defined]
    assert isinstance(
        choose_segment(ENGINES, table, vocabulary, model=CostModel(ENGINES, TYPICAL)),
        ToySegment,
    )
