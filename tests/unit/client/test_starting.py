"""Whose processes a start that fails ends: those that it has created, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from actors.client import starting
from actors.transport import remote
from ray_pubsub.errors import StoreError, UnknownServerError

FULL = StoreError("registry.sqlite", "the disk is full")


class Joined:
    address, node_id, started = "127.0.0.1:1", "node", False
    left = 0

    def leave(self) -> None:
        self.left += 1


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers whose actors were ended and, as "killed", their registries, where every registry reports a full disk."""
    found: list[str] = []

    def full(reference: object, *_: object) -> None:
        raise FULL

    monkeypatch.setattr(starting, "join", lambda *_, **options: Joined())
    monkeypatch.setattr(starting, "answer", full)
    monkeypatch.setattr(starting, "end_actors", found.append)
    monkeypatch.setattr(ray, "kill", lambda handle, no_restart: found.append("killed"))
    return found


class Opened:
    @staticmethod
    def remote() -> None: ...


class Registry:
    opened = Opened


def test_connecting_never_ends_a_registry(monkeypatch: pytest.MonkeyPatch, ended: list[str]) -> None:
    monkeypatch.setattr(starting, "_find", lambda name: Registry)
    with pytest.raises(StoreError, match="the disk is full"):
        starting.connect("shop", address="127.0.0.1:1")
    assert ended == []


@pytest.mark.parametrize(
    ("existing", "created", "expected"), [(Registry, None, []), (None, False, []), (None, True, ["shop", "killed"])]
)
def test_a_failed_start_ends_what_it_has_created(
    monkeypatch: pytest.MonkeyPatch, ended: list[str], existing: Any, created: bool, expected: list[str]
) -> None:
    monkeypatch.setattr(starting, "_find", lambda name: existing)
    monkeypatch.setattr(starting, "create_registry", lambda *_: (Registry, created))
    with pytest.raises(StoreError, match="the disk is full"):
        starting.start(name="shop", address="127.0.0.1:1")
    assert ended == expected


def test_a_server_that_cannot_open_its_data_is_ended_by_force_only(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    notes: list[tuple[str, str]] = []
    monkeypatch.setattr(starting, "_find", lambda name: Registry)
    monkeypatch.setattr(starting, "remove_note", lambda name, address: notes.append((name, address)))
    assert starting.end_by_force("shop", address="127.0.0.1:1") == "shop"
    assert (ended, notes) == (["shop", "killed"], [("shop", "127.0.0.1:1")])
    monkeypatch.setattr(starting, "_find", lambda name: None)
    monkeypatch.setattr(starting, "_running", lambda: ("other",))
    with pytest.raises(UnknownServerError, match="other"):
        starting.end_by_force("shop", address="127.0.0.1:1")
    assert ended == ["shop", "killed"]


def test_one_of_several_starters_creates_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    named: dict[str, str] = {}

    class Class:
        """Ray creates a named actor at most once; later callers get a ValueError."""

        def options(self, name: str, get_if_exists: bool, **_: object) -> Class:
            assert not get_if_exists
            self.name = name
            return self

        def remote(self, *_: object) -> str:
            if self.name in named:
                raise ValueError("taken")
            return named.setdefault(self.name, "the registry")

    monkeypatch.setattr(remote, "_actor", lambda *_, **options: Class())
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: named[name])
    assert remote.create_registry("shop", None, {}, None) == ("the registry", True)
    assert remote.create_registry("shop", None, {}, None) == ("the registry", False)
