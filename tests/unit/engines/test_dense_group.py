"""Dense blocks asked together about one event answer as each of them does alone."""

from __future__ import annotations

import gc
import random
import weakref

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.index.blocks import Blocks
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from tests.inside_of_index import merge_all, prefer_bitmaps, segmented

COLORS = ("red", "green", "blue", "gold")


@pytest.fixture(autouse=True)
def dense_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    prefer_bitmaps(monkeypatch)


def index_of(texts: list[str], parts: int) -> tuple[MatchIndex, Blocks]:
    """With as many dense blocks, each of a part of the subscriptions."""
    index = MatchIndex()
    size = len(texts) // parts
    for part in range(parts):
        ids = range(part * size, (part + 1) * size)
        index.add_many(ids, texts[part * size : (part + 1) * size])
    blocks = segmented(index).snapshot.blocks
    assert len(blocks) == parts
    assert all(isinstance(block, DenseSegment) for block in blocks)
    return index, blocks


def alone(blocks: Blocks, batch: EventBatch) -> list[int]:
    return sorted(np.concatenate([block.match(batch).slots for block in blocks]).tolist())


def event_like(turns: random.Random) -> dict[str, object]:
    event: dict[str, object] = {}
    for name in ("a", "b", "c"):
        if turns.random() < 0.9:
            event[name] = turns.choice([turns.randrange(-5, 105), turns.random() * 100, "text", True, 1e30])
    if turns.random() < 0.8:
        event["color"] = turns.choice([*COLORS, "unheard of", 3])
    if turns.random() < 0.3:
        event["nobody asks"] = 1
    return event


def texts_of(count: int, turns: random.Random, last: str = "") -> list[str]:
    texts = []
    for _ in range(count):
        low = [turns.randrange(80) for _ in range(3)]
        text = f"a between {low[0]} and {low[0] + 20} and b >= {low[1]} and c < {low[2]}.5"
        texts.append(f"{text} and color = '{turns.choice(COLORS)}'{last}")
    return texts


def test_together_as_alone() -> None:
    turns = random.Random(11)
    index, blocks = index_of(texts_of(3000, turns), 2)
    group, others = blocks.parts
    assert group is not None and not others, "one call for both"
    some = 0
    for _ in range(400):
        batch = from_dicts([event_like(turns)])
        together = sorted(index._books.engine.view().match(batch).slots.tolist())
        assert together == alone(blocks, batch)
        some += len(together)
    assert some > 100


def test_patterns_are_asked_block_by_block() -> None:
    turns = random.Random(12)
    index, blocks = index_of(texts_of(3000, turns, " and color like '%e%'"), 2)
    some = 0
    for _ in range(200):
        batch = from_dicts([event_like(turns)])
        together = sorted(index._books.engine.view().match(batch).slots.tolist())
        assert together == alone(blocks, batch)
        some += len(together)
    assert some > 20


def test_an_event_does_not_keep_blocks_alive() -> None:
    """Events may be kept and matched again for as long as anyone likes; blocks that were merged are to be given back."""
    index = MatchIndex()
    turns = random.Random(13)
    texts = texts_of(3000, turns)
    index.add_many(range(1500), texts[:1500])
    batch = from_dicts([event_like(turns)])
    index.match_many(batch)
    engine = segmented(index)
    old = weakref.ref(engine.snapshot.blocks[0])
    index.add_many(range(1500, 3000), texts[1500:])
    merge_all(engine)
    index.match_many(batch)
    gc.collect()
    assert old() is None
