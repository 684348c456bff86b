"""Many callers, few transactions; everybody gets what is theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.registry import group_commit
from actors.registry.changes import Answer, Change, Subscribe
from actors.registry.group_commit import GroupCommitter
from actors.registry.store.store import RegistryStore
from ray_pubsub.errors import OverloadedError, StoreError


class Gate:
    """Performs when it is let; remembers the groups."""

    def __init__(self, perform: Callable[[list[Any]], Sequence[Any]] = list) -> None:
        self.groups: list[list[Any]] = []
        self.entered, self.open = threading.Semaphore(0), threading.Event()
        self._perform = perform

    def __call__(self, items: list[Any]) -> Sequence[Any]:
        self.groups.append(items)
        self.entered.release()
        self.open.wait()
        return self._perform(items)


def test_what_waits_while_a_group_is_written_is_the_next_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LARGEST_GROUP", 4)
    gate = Gate()
    with closing(GroupCommitter[int, int](gate, "test")) as committer:
        futures = [committer.submit(0)]
        gate.entered.acquire()
        futures += [committer.submit(number) for number in range(1, 7)]
        gate.open.set()
        assert [future.result() for future in futures] == list(range(7))
    assert gate.groups == [[0], [1, 2, 3, 4], [5, 6]]


def test_a_bad_item_fails_alone_if_it_is_named() -> None:
    def perform(items: list[int]) -> list[int | BaseException]:
        return [ValueError(item) if item % 2 else item for item in items]

    with closing(GroupCommitter(perform, "test")) as committer:
        futures = committer.submit_many([0, 1, 2])
        assert (futures[0].result(), futures[2].result()) == (0, 2)
        with pytest.raises(ValueError, match="1"):
            futures[1].result()


def test_a_bad_item_fails_alone_if_it_brings_the_group_down() -> None:
    groups: list[list[int]] = []

    def perform(items: list[int]) -> list[int]:
        groups.append(items)
        if 2 in items:
            raise KeyError("two")
        return items

    with closing(GroupCommitter(perform, "test")) as committer:
        futures = committer.submit_many([1, 2, 3])
        assert (futures[0].result(), futures[2].result()) == (1, 3)
        with pytest.raises(KeyError):
            futures[1].result()
    assert groups == [[1, 2, 3], [1], [2], [3]]


def test_a_store_that_fails_is_asked_once() -> None:
    groups: list[list[int]] = []

    def perform(items: list[int]) -> list[int]:
        groups.append(items)
        raise StoreError("file", "full")

    with closing(GroupCommitter(perform, "test")) as committer:
        for future in committer.submit_many([1, 2, 3]):
            with pytest.raises(StoreError):
                future.result()
    assert groups == [[1, 2, 3]]


def test_what_was_done_is_not_done_again_even_if_the_answer_is_nonsense() -> None:
    gate = Gate(lambda items: items[:1])
    gate.open.set()
    with closing(GroupCommitter[int, int](gate, "test")) as committer:
        for future in committer.submit_many([1, 2]):
            with pytest.raises(RuntimeError, match="1 results for 2 items"):
                future.result()
    assert gate.groups == [[1, 2]]


def test_too_many_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MOST_WAITING", 3)
    gate = Gate()
    with closing(GroupCommitter[int, int](gate, "test")) as committer:
        futures = [committer.submit(0)]
        gate.entered.acquire()
        futures += committer.submit_many([1, 2])
        with pytest.raises(OverloadedError) as caught:
            committer.submit_many([3, 4])
        assert (caught.value.waiting, caught.value.retry_after > 0) == (2, True)
        futures.append(committer.submit(3))
        gate.open.set()
        assert [future.result() for future in futures] == [0, 1, 2, 3]


def test_who_gives_up_before_the_turn_is_left_out() -> None:
    gate = Gate()
    with closing(GroupCommitter[int, int](gate, "test")) as committer:
        first = committer.submit(0)
        gate.entered.acquire()
        with pytest.raises(TimeoutError):
            committer.commit(1, timeout=0.0)
        last = committer.submit(2)
        gate.open.set()
        assert (first.result(), last.result()) == (0, 2)
    assert gate.groups == [[0], [2]]


def test_closing_finishes_what_was_taken() -> None:
    gate = Gate()
    committer = GroupCommitter[int, int](gate, "test")
    futures: list[Future[int]] = [committer.submit(0)]
    gate.entered.acquire()
    futures.append(committer.submit(1))
    gate.open.set()
    committer.close()
    assert [future.result(0) for future in futures] == [0, 1]
    with pytest.raises(StoreError, match="closed"):
        committer.submit(2)
    committer.close()


def test_threads_over_a_store(tmp_path: Path) -> None:
    threads, each = 8, 50
    with RegistryStore(tmp_path / "registry.db") as store:
        transactions = []

        def perform(changes: list[Change]) -> Sequence[Any]:
            transactions.append(len(changes))
            return store.commit(changes)

        numbers: list[int] = []
        errors: list[BaseException] = []
        start = threading.Barrier(threads)

        def work(thread: int) -> None:
            start.wait()
            for item in range(each):
                answer: Answer = committer.commit(Subscribe(f"{thread}-{item}", f"desk-{thread}", "x = 1"))
                numbers.append(answer.number)
                try:
                    committer.commit(Subscribe("bad", ["desk"], "x = 1"))  # type: ignore[arg-type]
                except Exception as error:
                    errors.append(error)

        with closing(GroupCommitter[Change, Any](perform, "test")) as committer:
            workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        assert sorted(numbers) == list(range(1, threads * each + 1))
        assert len(errors) == threads * each
        assert store.counts().subscriptions == threads * each
        assert max(transactions) > 1


def test_futures_can_be_waited_for_together() -> None:
    with closing(GroupCommitter[int, int](list, "test")) as committer:
        futures = committer.submit_many(list(range(10)))
        assert wait(futures).not_done == set()
