"""A process may end at any place where something is written, with or without the machine: recovery has exactly what was acknowledged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ray_pubsub import MatchIndex, failpoints
from ray_pubsub.failpoints import PLACES
from tests.crashes.history import History
from tests.crashes.stores_in_process import Crash, Faults, small_stores

STEPS = 20
MOST_STEPS = 400
OFTEN = 2
"""A history goes on until its place was reached more often than this."""
STORES = [place for place in PLACES if not place.startswith(("backup.", "restore.", "save."))]


def lived_through(folder: Path, seed: object, place: str | None, steps: int = STEPS) -> Faults:
    """A history in which crashes, failing writes and power failures strike at a place (None: anywhere)."""
    faults, chance = Faults(), random.Random(f"{seed} {place}")
    with small_stores(), faults.watching():
        faults.arm(place, skipped=chance.randrange(2))  # while the stores are created
        history = History(folder, seed, faults)
        for step in range(MOST_STEPS):
            if step >= steps and (place is None or faults.reached[place] > OFTEN):
                break
            if chance.random() < 0.5:
                power = random.Random(chance.random()) if chance.random() < 0.4 else None
                often = chance.choice([0, 0, 1, 4]) if place is not None else chance.randrange(12)
                faults.arm(place, skipped=often, fails=chance.random() < 0.2, power=power)
            history.step()
            if chance.random() < 0.3:
                faults.disarm()
                history.check()
        faults.disarm()
        history.finish()
    return faults


@pytest.mark.parametrize("place", STORES)
def test_a_crash_at_this_place_loses_nothing(tmp_path: Path, place: str) -> None:
    faults = lived_through(tmp_path, 1, place)
    assert faults.reached[place] > OFTEN


@pytest.mark.parametrize("seed", range(4))
def test_crashes_at_any_place_lose_nothing(tmp_path: Path, seed: int) -> None:
    lived_through(tmp_path, seed, None)


@pytest.mark.parametrize("place", ["save.fsync", "save.rename"])
def test_a_crash_while_an_index_is_saved_leaves_the_old_file(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, path = MatchIndex(), tmp_path / "index"
    index.add("a", "x = 1")
    index.save(path)
    index.add("b", "x = 2")

    def crash(reached: str) -> None:
        if reached == place:
            raise Crash

    monkeypatch.setattr(failpoints, "watch", crash)
    with pytest.raises(Crash):
        index.save(path)
    monkeypatch.setattr(failpoints, "watch", None)
    assert list(MatchIndex.load(path)) == ["a"]
    index.save(path)
    assert list(MatchIndex.load(path)) == ["a", "b"]


def test_nothing_is_reached_when_nobody_watches() -> None:
    assert failpoints.watch is None
    failpoints.reach("registry.fsync")
