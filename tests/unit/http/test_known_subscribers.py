"""When the registry is asked about a name, and what a client may learn."""

from __future__ import annotations

from typing import Any

import pytest

from actors.http import known_subscribers
from actors.http.known_subscribers import KnownSubscribers
from actors.http.tokens import Client
from ray_pubsub.errors import UnavailableError

ADMIN, TEAM = Client("boss", frozenset({"admin"})), Client("team", frozenset({"subscribe:team-*"}))


class Backend:
    def __init__(self) -> None:
        self.names = {"team-a", "teams"}
        self.asked: list[str] = []
        self.away = False

    async def ask(self, actor: str, method: str, name: str, timeout: float) -> Any:
        self.asked.append(name)
        if self.away:
            raise UnavailableError("the registry", "it restarts")
        return name in self.names, () if name in self.names else ("team-a", "teams")


async def test_a_name_is_asked_for_until_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = Backend()
    known = KnownSubscribers(backend)
    assert "did you mean 'team-a' or 'teams'?" in (await known.warning("team-b", ADMIN) or "")
    shown = await known.warning("team-b", TEAM) or ""
    assert "did you mean 'team-a'?" in shown and "teams" not in shown
    assert backend.asked == ["team-b"]  # the second answer was remembered
    monkeypatch.setattr(known_subscribers, "AGAIN", 0.0)
    known = KnownSubscribers(backend)
    assert await known.warning("team-b", ADMIN) is not None
    backend.names.add("team-b")
    assert await known.warning("team-b", ADMIN) is None
    backend.names.clear()
    assert await known.warning("team-b", ADMIN) is None
    assert backend.asked == ["team-b"] * 3


async def test_polls_are_not_slowed_down_while_the_registry_restarts() -> None:
    backend: Any = Backend()
    known = KnownSubscribers(backend)
    backend.away = True
    assert await known.warning("x", ADMIN) is None
    assert await known.warning("y", ADMIN) is None
    assert backend.asked == ["x"]


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_subscribers, "MOST", 3)
    backend: Any = Backend()
    known = KnownSubscribers(backend)
    for number in range(10):
        await known.warning(f"x{number}", ADMIN)
    assert list(known._unknown) == ["x7", "x8", "x9"]
