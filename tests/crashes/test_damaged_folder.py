"""Every file of a data folder, of a saved index and of saved rules with flipped bits, or cut off: exact content or our own error."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.storage.data_folder import STORES
from ray_pubsub import MatchIndex, PriorityRules
from ray_pubsub.errors import RayPubSubError
from tests.crashes.history import History
from tests.crashes.stores_in_process import Faults, Stores, small_stores
from tests.unit.mailboxes.delivery_samples import SimulatedClock

DAMAGES = 14
"""To each file."""


def damage(path: Path, chance: random.Random) -> None:
    """A few flipped bits, an end that is missing, a page of zeros, or nothing left."""
    content, how = bytearray(path.read_bytes()), chance.randrange(8)
    place = chance.randrange(len(content) or 1)
    if how <= 4:
        for _ in range(chance.choice([1, 1, 3])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif how == 5:
        del content[place:]
    elif how == 6:
        content[place : place + 4096] = bytes(len(content[place : place + 4096]))
    else:
        content.clear()
    path.write_bytes(content)


def opened(folder: Path) -> Any:
    """Everything that the stores of a folder hold."""
    stores = Stores(folder, SimulatedClock())
    try:
        pages = {
            name: [(each.id, each.expression) for each in stores.registry.page(name, limit=1000).items]
            for name in ("ann", "bob", "eve")
        }
        waiting = {
            name: sorted(
                (each.sequence, each.event_id, str(each.event))
                for each in stores.mailboxes.poll(name, 1000).deliveries()
            )
            for name in pages
        }
        return pages, waiting, stores.registry.rules()
    finally:
        stores.close()


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_a_damaged_data_folder_is_exact_or_refused(tmp_path: Path, ended: str) -> None:
    chance, faults = random.Random(ended), Faults()
    with small_stores(), faults.watching():
        history = History(tmp_path / "lives", "damage", faults)
        for _ in range(60):
            history.step()
        kept = tmp_path / "kept"
        if ended == "killed":
            shutil.copytree(faults.folder, kept)
        history.finish()
        if ended == "stopped":
            shutil.copytree(faults.folder, kept)
    for path in kept.glob("*-shm"):
        path.unlink()
    expected = opened(shutil.copytree(kept, tmp_path / "whole"))
    refused = 0
    files = sorted(path.name for path in kept.iterdir())
    stores = [*STORES.values()]
    assert {"manifest.json", *stores, *(f"{store}.sums" for store in stores)} <= {*files}
    for name in files:
        for _ in range(DAMAGES):
            damaged = shutil.copytree(kept, tmp_path / "damaged")
            damage(damaged / name, chance)
            try:
                assert opened(damaged) == expected, name
            except RayPubSubError:
                refused += 1
            shutil.rmtree(damaged)
    assert refused > 2 * DAMAGES


def saved_index(path: Path) -> None:
    index = MatchIndex()
    index.add_many(["a", "b", 3], ["x = 1 or y > 2", "s like 'a%' and x in (1, 2, 5)", "t is not null"])
    index.save(path)


def saved_rules(path: Path) -> None:
    rules = PriorityRules(["low", "high"])
    rules.add_many(["r1", 2], ["high", "low"], ["x > 5 and s in ('a', 'b')", "y like 'z%'"])
    rules.save(path)


def loaded_index(path: Path) -> Any:
    index = MatchIndex.load(path)
    return {identity: index.expression(identity) for identity in index}, index.match({"x": 1, "t": 1})


def loaded_rules(path: Path) -> Any:
    return PriorityRules.load(path).priorities([{"x": 9, "s": "a"}, {"y": "zz"}, {}])


@pytest.mark.parametrize(
    ("save", "load"), [(saved_index, loaded_index), (saved_rules, loaded_rules)], ids=["index", "rules"]
)
def test_a_damaged_saved_file_is_refused(
    tmp_path: Path, save: Callable[[Path], None], load: Callable[[Path], Any]
) -> None:
    chance, path, copy = random.Random(3), tmp_path / "saved", tmp_path / "damaged"
    save(path)
    assert load(path)
    for _ in range(150):
        shutil.copyfile(path, copy)
        damage(copy, chance)
        if copy.read_bytes() != path.read_bytes():
            with pytest.raises(RayPubSubError):
                load(copy)
