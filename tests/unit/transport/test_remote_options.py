"""How the actors are created: restarted for ever, no call repeated by Ray, and nothing kept of every call. No cluster is needed."""

from __future__ import annotations

from typing import Any

import pytest

from actors.server_settings import ServerSettings
from actors.transport import remote


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The options with which an actor of each role would be created."""
    found: dict[str, dict[str, Any]] = {}

    def note(actor: Any, server: str, role: str, *_: Any, **options: Any) -> str:
        found[role] = actor._default_options
        return role

    monkeypatch.setattr(remote, "_create", note)
    one, two = ServerSettings(), ServerSettings(coordinators=2)
    remote.create_registry("shop", None, {}, None)
    remote.create_shard("shop", 0, one)
    remote.create_coordinator("shop", 0, one, None, None)
    remote.create_coordinator("shop", 1, two, None, None)
    remote.create_mailboxes("shop", two, None, None)
    return found


@pytest.mark.parametrize("role", ["registry", "shard-0", "coordinator-0", "coordinator-1", "mailboxes"])
def test_options(created: dict[str, dict[str, Any]], role: str) -> None:
    options = created[role]
    assert options["enable_task_events"] is False, "Ray's GCS would keep kilobytes of each of 100,000 calls"
    assert (options["max_restarts"], options["max_task_retries"], options["num_cpus"]) == (-1, 0, 0)


def test_all_batches_in_flight_can_wait_in_a_shard_by_their_levels(created: dict[str, dict[str, Any]]) -> None:
    assert created["shard-0"]["concurrency_groups"]["large"] >= ServerSettings().max_in_flight
