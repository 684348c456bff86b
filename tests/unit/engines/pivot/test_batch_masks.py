"""Batches against a pivot block by masks of events: the same matches as event by event, and only where that is less work."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.event_codes import encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.pivot.batch_masks import BatchMasks, Cells
from ray_pubsub.engines.pivot.match_ways import Way
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.kernels.pivot.batch_masks import CHUNK
from ray_pubsub.model.dict_events import from_dicts
from tests.unit.engines.coded_tables import table_of
from tests.unit.engines.pivot.test_pivot_lists import event, rule


def block_of(texts: list[str]) -> tuple[PivotSegment, BatchMasks]:
    vocabulary = Vocabulary()
    block = PivotSegment(table_of(texts, vocabulary), vocabulary)
    return block, BatchMasks(block._lists, block.owners, block.space.top)


def cells_of(block: PivotSegment, events: list[dict[str, Any]]) -> Cells:
    codes = encode_events(from_dicts(events), block.space, block.vocabulary)
    return codes.offsets, codes.column, codes.code


@pytest.mark.parametrize(("values", "events"), [(3, 65), (60, CHUNK + 70), (2000, 300)])
def test_every_kind_of_test_against_the_scan(values: int, events: int) -> None:
    random = Random(values)
    texts = [rule(random, values) for _ in range(300)]
    block, masks = block_of(texts)
    batch = [event(random, values) for _ in range(events)]
    hits = masks.match(cells_of(block, batch))
    assert hits is not None
    scan = MatchIndex("scan")
    scan.add_many(range(len(texts)), texts)
    some = [*range(40), *range(events - 20, events)]
    expected = scan.match_many([batch[place] for place in some])
    for number, place in enumerate(some):
        found = sorted(set(hits.slots[hits.offsets[place] : hits.offsets[place + 1]].tolist()))
        assert found == sorted(expected[number])
    assert len(hits.slots) > 0


def test_work_space_is_left_clean() -> None:
    """Blocks of a thread share it: what a larger one leaves there must not be seen by the next."""
    random = Random(1)
    blocks = [block_of([rule(random, values) for _ in range(100)]) for values in (2000, 3, 2000)]
    batch = [event(random, 60) for _ in range(200)]
    for block, masks in blocks:
        hits = masks.match(cells_of(block, batch))
        each = [block.match(from_dicts([one])).slots.tolist() for one in batch[:50]]
        assert hits is not None
        assert [sorted(hits.slots[hits.offsets[n] : hits.offsets[n + 1]].tolist()) for n in range(50)] == [
            sorted(slots) for slots in each
        ]


def test_masks_are_for_events_that_meet_many_entries() -> None:
    crowded, _ = block_of([f"a in ('v{n % 3}', 'v{n % 5}') and b in ({n}, {n + 1})" for n in range(3000)])
    batch = [{"a": f"v{n % 5}", "b": n} for n in range(CHUNK)]
    assert crowded._ways.for_batch(cells_of(crowded, batch)) is Way.LISTS  # b leads to two clauses
    crowded, _ = block_of([f"{long} and b != {n}" for n, long in enumerate(many_columns(3000))])
    batch = [{"b": n} for n in range(CHUNK)]
    assert crowded._ways.for_batch(cells_of(crowded, batch)) is Way.MASKS
    few = crowded._ways.for_batch(cells_of(crowded, batch[:8]))
    assert few is not Way.MASKS  # too few events to share a pass over all clauses
    assert crowded._ways.for_batch(cells_of(crowded, [{"c": 1}] * CHUNK)) is Way.LISTS


def many_columns(count: int) -> list[str]:
    """Tests that hold without their attribute, too few on each for states."""
    return [f"(x{n % 300} is null or x{n % 300} > 5)" for n in range(count)]


def test_events_with_too_many_different_values_are_matched_one_by_one() -> None:
    columns = 70
    texts = [" and ".join(f"a{column} >= {n}" for column in range(n % columns, columns)) for n in range(200)]
    block, masks = block_of(texts)
    random = np.random.default_rng(7)
    values = random.permuted(np.tile(np.arange(CHUNK), (columns, 1)), axis=1)
    batch = [{f"a{column}": int(values[column, n]) for column in range(columns)} for n in range(CHUNK)]
    few = [dict.fromkeys(one, 150) for one in batch[:70]]
    texts_of_all = [f"a{column} = {value}" for column in range(columns) for value in range(0, CHUNK, 2)]
    block, masks = block_of(texts + texts_of_all)
    assert masks.match(cells_of(block, batch)) is None
    assert masks.match(cells_of(block, few)) is not None  # nothing is left over from the attempt
    each = [block.match(from_dicts([one])).slots.tolist() for one in few[:2]]
    assert len(each[0]) > 0
    whole = block.match(from_dicts(few))
    assert sorted(whole.slots[: whole.offsets[1]].tolist()) == sorted(each[0])
