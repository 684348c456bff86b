"""An index whose stream turns round: its blocks choose pivots again, in a thread, and every answer stays right."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.index.pivots import recent_events
from ray_pubsub.index.pivots.pivot_following import PivotFollowing
from ray_pubsub.index.pivots.repivot_policy import RepivotPolicy
from tests.inside_of_index import merge_all, prefer_bitmaps, segmented

EAGER = RepivotPolicy(look_events=512, rebuild_cost=1.0)
FIELDS = 16
CLAUSES = 2000


def followed(engine: str, merges: Any = "inline") -> MatchIndex:
    index = MatchIndex(engine, merges=merges)
    live = segmented(index)
    live.following = PivotFollowing(live, EAGER)
    return index


def text(number: int, joint: bool = False) -> str:
    left, right = f"l{number % FIELDS} = {number % 11}", f"r{number * 7 % FIELDS} = {number % 13}"
    if not joint:
        return f"{left} and {right}"
    # Too many-sided to be multiplied out: one disjunction on the left's fields, others on the right's.
    rights = " and ".join(f"({right} or r{number * part % FIELDS} = {part})" for part in range(2, 16))
    return f"({left} or l{(number + 1) % FIELDS} = 3) and {rights}"


def events(side: str, count: int, seed: int) -> list[dict[str, int]]:
    """All fields of one side, and now and then a few of the other."""
    drawn = random.Random(seed)
    other = "r" if side == "l" else "l"
    made = []
    for _ in range(count):
        event = {f"{side}{field}": drawn.randrange(13) for field in range(FIELDS)}
        if drawn.random() < 0.05:
            event |= {f"{other}{field}": drawn.randrange(13) for field in range(FIELDS)}
        made.append(event)
    return made


def met(index: MatchIndex, event: dict[str, int]) -> int:
    """Clauses that the pivots lead an event to."""
    plan = index.explain(event)
    assert isinstance(plan, IndexPlan)
    return sum(segment.partitions.clauses_visited for segment in plan.segments)


def show(index: MatchIndex, stream: list[dict[str, int]]) -> None:
    for start in range(0, len(stream), 256):
        index.match_many(stream[start : start + 256])
        index.wait_for_merges()  # each look comes after the same events, however slow its thread is


@pytest.mark.parametrize("joint", [False, True], ids=["clauses", "cnf"])
@pytest.mark.parametrize("engine", ["auto", "opindex"])
def test_an_event_meets_fewer_clauses_after_a_turn(engine: str, joint: bool) -> None:
    index, naive = followed(engine), MatchIndex("scan")
    numbers = range(CLAUSES if not joint else 1100)
    for each in (index, naive):
        each.add_many(numbers, [text(number, joint) for number in numbers], atomic=True)
    merge_all(segmented(index))
    show(index, events("l", 1024, 1))
    left, right = ({f"{side}{field}": field % 13 for field in range(FIELDS)} for side in "lr")
    assert met(index, left) < len(numbers) / 10, "pivots are on the right, which few events carry"
    assert met(index, right) > len(numbers) / 2
    before = index.stats().repivoted
    show(index, events("r", 2048, 2))
    assert met(index, right) < len(numbers) / 10
    assert index.stats().repivoted > before
    assert "pivots chosen again" in str(index.stats())
    for event in [*events("r", 2, 3), *events("l", 2, 4)]:
        assert index.match(event) == naive.match(event)


def test_a_steady_stream_rebuilds_nothing_more() -> None:
    index = followed("auto")
    index.add_many(range(CLAUSES), [text(number) for number in range(CLAUSES)], atomic=True)
    show(index, events("l", 2048, 1))
    rebuilt = index.stats().repivoted
    for seed in range(5):
        show(index, events("l", 1024, seed))
    assert index.stats().repivoted == rebuilt <= 1


@pytest.mark.parametrize("merges", ["inline", "background"])
def test_it_stays_exact_under_changes(merges: str) -> None:
    """A writer goes on adding, replacing and removing while blocks are rebuilt, and the stream keeps turning."""
    index, naive, drawn = followed("auto", merges), MatchIndex("scan"), random.Random(5)
    for each in (index, naive):
        each.add_many(range(CLAUSES), [text(number) for number in range(CLAUSES)], atomic=True)
    streams = {side: events(side, 256, 7) for side in "lr"}
    done = threading.Event()

    def publish() -> None:
        turn = 0
        while not done.is_set():
            for _ in range(4):
                index.match_many(streams["lr"[turn % 2]])
            turn += 1

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for step in range(200):
            number = drawn.randrange(2 * CLAUSES)
            for each in (index, naive):
                if step % 3:
                    each.add(number, text(step * 31))
                else:
                    each.remove(number)
            if step % 50 == 0:
                event = drawn.choice(streams["l"]) | drawn.choice(streams["r"])
                assert index.match(event) == naive.match(event)
    finally:
        done.set()
        publisher.join()
    for side in "lrl":  # however little the publisher came to do
        show(index, streams[side] * 5)
    assert index.stats().repivoted > 0
    for event in [*streams["l"][:5], *streams["r"][:5], streams["l"][0] | streams["r"][0]]:
        assert index.match(event) == naive.match(event)


def test_a_block_that_was_merged_meanwhile_is_left_alone() -> None:
    index = followed("auto")
    index.add_many(range(CLAUSES), [text(number) for number in range(CLAUSES)], atomic=True)
    live = segmented(index)
    (block,) = live.snapshot.blocks
    merge_all(live)
    merged = live.snapshot
    assert live.maintenance.rebuild(block) is None
    assert live.snapshot is merged


def test_a_failure_reaches_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    index = followed("auto")
    index.add_many(range(CLAUSES), [text(number) for number in range(CLAUSES)], atomic=True)

    def fails(table: Any) -> Any:
        raise MemoryError("no room for a block")

    monkeypatch.setattr(segmented(index), "build", fails)
    with pytest.raises(MemoryError, match="no room"):
        show(index, events("r", 2048, 1))
    index.wait_for_merges()
    assert index.match({"l1": 1, "r7": 1}) == [1]


@pytest.mark.parametrize("engine", ["auto", "opindex"])
def test_frequencies_are_saved(engine: str, tmp_path: Any) -> None:
    """What is built after loading is built by what was learned before, and what is loaded keeps its pivots."""
    index = MatchIndex(engine)
    index.match_many([{"type": 1}] * 10)  # no attribute is read yet
    index.add_many(range(CLAUSES), [text(number) for number in range(CLAUSES)], atomic=True)
    index.add("joint", text(5, joint=True))
    show(index, events("l", 2048, 1))
    merge_all(segmented(index))
    index.save(tmp_path / "index")
    loaded = MatchIndex.load(tmp_path / "index")
    known, again = (segmented(each).frequency.of(segmented(each).vocabulary) for each in (index, loaded))
    assert known is not None and again is not None and (known == again).all() and known.max() == 1.0
    left = {f"l{field}": field % 13 for field in range(FIELDS)}
    assert met(loaded, left) == met(index, left) < CLAUSES / 10
    loaded.add_many(range(10_000, 10_000 + CLAUSES), [text(number) for number in range(CLAUSES)], atomic=True)
    assert met(loaded, left) < CLAUSES / 10


def test_a_file_without_frequencies_is_loaded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As releases before wrote them."""
    from ray_pubsub.index.storage import built_segments

    index = MatchIndex()
    index.add_many(range(CLAUSES), [text(number) for number in range(CLAUSES)], atomic=True)
    show(index, events("l", 512, 1))
    whole = built_segments.BuiltSegments.state
    monkeypatch.setattr(
        built_segments.BuiltSegments,
        "state",
        lambda self, slots: {name: value for name, value in whole(self, slots).items() if name != "frequency"},
    )
    index.save(tmp_path / "old")
    loaded = MatchIndex.load(tmp_path / "old")
    assert segmented(loaded).frequency.of(segmented(loaded).vocabulary) is None
    assert loaded.match({"l1": 1, "r7": 1}) == index.match({"l1": 1, "r7": 1}) == [1]


def test_waiting_while_a_check_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread reads and starts a check; another waits for merges in that moment."""
    index = followed("auto")
    index.add_many(range(CLAUSES), [text(number) for number in range(CLAUSES)])
    failures: list[BaseException] = []
    waiters: list[threading.Thread] = []

    def wait() -> None:
        try:
            index.wait_for_merges()
        except BaseException as error:
            failures.append(error)

    start = threading.Thread.start

    def slowly(thread: threading.Thread) -> None:
        if thread.name == "ray-pubsub-pivots":
            waiter = threading.Thread(target=wait)
            waiters.append(waiter)
            start(waiter)
            waiter.join(0.2)  # it fails at once, or waits for this check
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    show(index, events("l", 600, 1))
    monkeypatch.undo()
    assert waiters
    waiters[0].join()
    assert failures == []


def limits(count: int) -> list[str]:
    """Limits of three metrics, which most events are far below."""
    drawn = random.Random(3)
    return [
        " and ".join(f"m{place} between {drawn.randrange(600, 1000)} and 1000" for place in drawn.sample(range(4), 3))
        for _ in range(count)
    ]


def metrics(low: int, high: int, count: int, seed: int) -> list[dict[str, int]]:
    drawn = random.Random(seed)
    return [{f"m{place}": drawn.randrange(low, high) for place in range(4)} for _ in range(count)]


def test_a_block_gets_another_engine_when_events_turn_out_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quiet events match next to nothing; then the same attributes have values that most limits admit. Every answer stays right."""
    monkeypatch.setattr(recent_events, "PAUSE", 1)
    index, naive = followed("auto"), MatchIndex("scan")
    texts = limits(3000)
    with pytest.MonkeyPatch.context() as patched:  # for quiet events, the engines are too close for a test
        prefer_bitmaps(patched)
        for each in (index, naive):
            each.add_many(range(len(texts)), texts, atomic=True)
        live = segmented(index)
        merge_all(live)
        live.following.policy = replace(EAGER, again_events=1024, margin=1.1)
        show(index, metrics(0, 500, 1024, 1))
        assert index.stats().blocks_by_engine() == {"dense": 1}
    show(index, metrics(900, 1000, 4096, 2))
    assert index.stats().blocks_by_engine() == {"pivot": 1}
    for event in [*metrics(0, 1000, 3, 3), *metrics(900, 1000, 2, 4)]:
        assert index.match(event) == naive.match(event)
    repivoted = index.stats().repivoted
    show(index, metrics(900, 1000, 4096, 5))
    assert index.stats().repivoted == repivoted, "it stays with what it has chosen"
