"""How a registry starts: what it does where its data is missing, and that it answers with the reason until it is back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.registry.registry import Registry
from actors.storage import opening
from actors.transport.actor_handles import ActorHandles
from ray_pubsub.errors import RayPubSubError, SettingError, StoreError, UnavailableError

GIVEN = {"shards": 1, "lease": 0.1, "timeout": 5.0}


class Alone(ActorHandles):
    """No other actor exists."""

    def __init__(self, server: str = "alone", restarted: bool = False) -> None:
        super().__init__(server)
        self._restarted = restarted

    def cluster(self) -> str:
        return "here"

    def restarted(self) -> bool:
        return self._restarted

    def _handle(self, role: str) -> Any:
        raise UnavailableError(role, "is not there")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "RETRY_EVERY", 0.01)


def every_call(registry: Registry) -> list[Callable[[], Any]]:
    return [
        registry.opened,
        registry.health,
        registry.stats,
        registry.rules,
        lambda: registry.subscribe("desk", "x = 1", "s2"),
        lambda: registry.get("s1"),
        lambda: registry.start_shard(0),
        lambda: registry.attach_coordinator(0, 1),
        lambda: registry.renew(0, 1, 1, 1),
    ]


def until_it_answers(call: Callable[[], Any]) -> Any:
    ends = time.monotonic() + 60
    while True:
        try:
            return call()
        except StoreError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.01)


def test_while_the_volume_is_away_every_call_says_so_and_afterwards_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = Registry(Alone(), str(folder), GIVEN)
    first.subscribe("desk", "x = 1", "s1")
    first.close()
    folder.rename(tmp_path / "away")
    folder.mkdir()  # the folder on which the volume was mounted
    second = Registry(Alone(restarted=True), str(folder), GIVEN)
    for call in every_call(second):
        with pytest.raises(StoreError, match=r"has no manifest\.json"):
            call()
    assert list(folder.iterdir()) == []
    folder.rmdir()
    (tmp_path / "away").rename(folder)
    assert until_it_answers(lambda: second.get("s1")).expression == "x = 1"
    second.subscribe("desk", "x = 2", "s2")
    second.close()


def test_a_registry_without_its_file_does_not_begin_with_an_empty_one(tmp_path: Path) -> None:
    Registry(Alone(), str(tmp_path), GIVEN).close()
    (tmp_path / "registry.sqlite").unlink()
    for restarted in (False, True):
        found = Registry(Alone(restarted=restarted), str(tmp_path), GIVEN)
        with pytest.raises(StoreError, match="is missing, although"):
            found.opened()
        found.close()
    assert not (tmp_path / "registry.sqlite").exists()


def test_another_server_is_refused(tmp_path: Path) -> None:
    first = Registry(Alone(), str(tmp_path), GIVEN)
    first.opened()
    second = Registry(Alone("other"), str(tmp_path), GIVEN)
    with pytest.raises(StoreError, match=r"is in use by the server alone \(here\)"):
        second.opened()
    first.close()
    assert until_it_answers(second.opened)["name"] == "other"
    second.close()


@pytest.mark.parametrize("given", [{"levels": ("a", "b")}, {"engine": "none"}, {"ignore_case": True}])
def test_a_setting_that_does_not_fit_is_raised_and_gives_the_folder_back(tmp_path: Path, given: dict[str, Any]) -> None:
    first = Registry(Alone(), str(tmp_path), GIVEN)
    first.prioritize("r", "high", "x = 1")
    first.subscribe("desk", "x = 1", "s")
    first.close()
    second = Registry(Alone(), str(tmp_path), {**GIVEN, **given})
    for call in (second.opened, second.health):
        with pytest.raises(SettingError):
            call()
    third = Registry(Alone("other"), str(tmp_path), GIVEN)
    assert [rule.id for rule in third.rules()] == ["r"]
    third.close()
    second.close()


def test_a_damaged_store_is_said_to_be_damaged(tmp_path: Path) -> None:
    Registry(Alone(), str(tmp_path), GIVEN).close()
    (tmp_path / "registry.sqlite").write_bytes(b"no database" * 1000)
    found = Registry(Alone(), str(tmp_path), GIVEN)
    with pytest.raises(RayPubSubError, match=r"registry\.sqlite: is damaged at byte 0 \(page 1 of"):
        found.opened()
    found.close()
