"""What an operator does to a server: restarts its processes one by one, copies its data while it runs, and finds its files damaged."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import ray

import ray_pubsub
from actors.client import starting
from actors.client.server import Server
from actors.cluster.joining import Joined
from actors.transport.calls import Deadline
from ray_pubsub.errors import StoreError
from tests.chaos.processes import kill, pid_of, roles

SUBSCRIPTIONS = {f"s{number}": f"x >= {number}" for number in range(40)}


def connected_when_there_is_room(name: str) -> Server:
    """The registry tries to open its store every second."""
    ends = time.monotonic() + 30
    while True:
        try:
            return ray_pubsub.connect(name)
        except StoreError:
            assert time.monotonic() < ends
        time.sleep(0.1)


def test_a_server_is_restarted_copied_and_found_damaged(
    cluster: Joined, failpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ray_pubsub.start(1, tmp_path / "data", "kept", coordinators=2, lease=1.0, ignore_case=True)
    server.subscribe_many(
        list(SUBSCRIPTIONS), list(SUBSCRIPTIONS.values()), subscriber="desk", data={"since": "before"}, tags=["kept"]
    )
    server.subscribe("others", "name >= 'b' and name < 'Q'", id="folded")

    ended, published, failed = threading.Event(), list[int](), list[BaseException]()

    def publish() -> None:
        """All the time; every answer must be complete. The pause leaves the cores to the processes that start."""
        number = 0
        while not ended.wait(0.02):
            try:
                result = server.publish({"id": number, "x": number % 40}, event_id="id")
                assert sorted(result[0]) == sorted(f"s{each}" for each in range(number % 40 + 1))
                published.append(number)
            except BaseException as error:
                failed.append(error)
                return
            number += 1

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for role, handle in roles(server).items():
            before, count = pid_of(server, role), len(published)
            ray.kill(handle, no_restart=False)
            while pid_of(server, role) == before or (len(published) < count + 3 and not failed):
                time.sleep(0.05)
        server.backup(tmp_path / "copy")  # while it is published
    finally:
        ended.set()
        publisher.join()
    assert failed == []

    # A registry that restarts on a full disk is no reason for a program that connects to end it: it goes on when there is room again.
    failpoints.write_text("registry.fsync full\n")
    kill(server, "registry")
    with pytest.raises(StoreError, match="disk is full"):
        ray_pubsub.connect("kept")
    with pytest.raises(StoreError, match="disk is full"):
        ray_pubsub.start(data_dir=tmp_path / "data", name="kept")
    failpoints.unlink()
    with connected_when_there_is_room("kept") as beside:
        assert beside.registry._actor_id == server.registry._actor_id
        assert beside.subscription("s1").expression == SUBSCRIPTIONS["s1"]
    server.stop()

    with ray_pubsub.start(data_dir=tmp_path / "restored", name="kept-again", restore=tmp_path / "copy") as again:
        assert {each.id for each in again.subscriptions(tag="kept")} == set(SUBSCRIPTIONS)
        assert again.publish([{"name": "Cy"}, {"name": "Q"}], deliver=False).matches()[0] == ["folded"]
        assert "lower(name) < 'q'" in str(again.explain({"name": "Cy"}, "folded"))
        result = again.publish({"x": 39}, deliver=False)
        assert (len(result[0]), result.data()) == (40, [{"since": "before"}] * 40)
        letters = {(each.event_id, each.subscription_id) for each in again.poll("desk", limit=20_000)}
        assert (0, "s0") in letters

    deadlines: list[Deadline] = []

    def watched(seconds: float) -> Deadline:
        deadlines.append(Deadline(seconds))
        return deadlines[-1]

    monkeypatch.setattr(starting, "Deadline", watched)
    for file in ("mailboxes.sqlite", "registry.sqlite"):
        path = tmp_path / "data" / file
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 16
        path.write_bytes(content)
        with pytest.raises(StoreError, match=rf"{file}: is damaged at byte [\d,]+ \(page \d+ of \d+\)"):
            ray_pubsub.start(data_dir=tmp_path / "data", name="damaged")
        assert deadlines[-1].left > deadlines[-1].seconds / 2, "it is reported at once, not when the time is over"
