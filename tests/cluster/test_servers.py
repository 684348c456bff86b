"""Several servers on one cluster, started, joined, found and stopped from several processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined
from actors.cluster.server_notes import read_notes
from ray_pubsub.errors import ServerReleaseError, SettingError, StoreError, UnknownServerError
from tests.cluster.joining_programs import begin, finish


@pytest.fixture(scope="module")
def kept(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with a data folder, two levels, and small mailboxes that bury what is too much. The last test here stops it."""
    mailbox: ray_pubsub.MailboxOptions = {"capacity": 3, "overflow": "dead-letter"}
    folder = tmp_path_factory.mktemp("kept")
    with ray_pubsub.start(1, folder, "kept", mailbox=mailbox, levels=["a", "b"]) as server:
        yield server


def test_servers_side_by_side_know_nothing_of_each_other(server: Server, second: Server) -> None:
    server.subscribe("beside", "beside.x = 1", id="same")
    second.subscribe("beside", "beside.x >= 1", id="same")
    second.prioritize("same", "express", "beside.x = 2")
    events = [{"beside.x": 1, "id": "e1"}, {"beside.x": 2, "id": "e2"}]
    for _ in range(4):  # by both coordinators
        mine, others = server.publish(events, event_id="id"), second.publish(events, event_id="id")
        assert (mine.counts().tolist(), others.counts().tolist()) == ([1, 0], [1, 1])
        assert (list(mine.priorities), list(others.priorities)) == (["low", "low"], ["bulk", "express"])
    assert [each.event_id for each in server.poll("beside")] == ["e1"]
    assert [each.event_id for each in second.poll("beside")] == ["e2", "e1"]
    assert second.unsubscribe("same")
    assert server.publish(events, deliver=False).counts().tolist() == [1, 0]


def test_every_coordinator_knows_what_was_acknowledged(second: Server) -> None:
    for number in range(10):
        second.subscribe("known", f"known.x = {number}", id="known")
        second.prioritize("known", "express", f"known.x = {number}")
        for _ in range(2):
            result = second.publish([{"known.x": number}, {"known.x": number - 1}], deliver=False)
            assert (result[0], result[1], list(result.priorities)) == (["known"], [], ["express", "bulk"])
    assert all(each["events"] > 0 for each in second.stats().coordinators)


def test_a_small_mailbox_drops_the_oldest_and_buries_what_fails(second: Server) -> None:
    second.subscribe("small", "small.x >= 0", id="small")
    for number in range(5):
        second.publish({"small.x": number})
    found = second.poll("small")
    assert [each.event for each in found] == [{"small.x": number} for number in (2, 3, 4)]
    second.nack(found)
    second.nack(second.poll("small"), reason="again")
    assert [(each.event, each.attempts) for each in second.dead_letters("small", limit=1)] == [({"small.x": 2}, 2)]
    assert second.redrive("small", [second.dead_letters("small")[0].sequence]) == 1
    assert second.purge_dead("small") == 2
    assert [each.event for each in second.poll("small")] == [{"small.x": 2}]


def test_the_window_is_as_long_as_was_said(second: Server) -> None:
    second.subscribe("window", "window.x = 1", id="window")
    first = [{"window.x": 1, "id": f"w{number}"} for number in range(3)]
    second.publish(first, event_id="id")
    assert second.publish(first, event_id="id").deliveries.duplicates == 3
    second.publish([{"window.x": 1, "id": f"w{number}"} for number in range(3, 7)], event_id="id")
    assert second.publish(first, event_id="id").deliveries.duplicates == 0


def test_what_a_lost_server_left_over_is_not_part_of_the_next(cluster: Joined) -> None:
    """Its registry is gone for good, its other processes run on, with the settings of then."""
    lost = ray_pubsub.start(1, name="lost")
    ray.kill(lost.registry, no_restart=True)
    with ray_pubsub.start(1, name="lost", ignore_case=True) as server:
        server.subscribe("desk", "name = 'ANNE'", id="s")
        assert server.publish({"name": "anne"}).subscription_ids.tolist() == ["s"]
    lost.close()


def test_starting_twice_joins(server: Server, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ray_pubsub.start(name="shared") as again:
            assert again.settings == server.settings
    with pytest.warns(UserWarning, match=r"shards, data_dir had no effect"), ray_pubsub.start(7, tmp_path, "shared"):
        pass
    server.subscribe("joined", "joined.x = 1", id="joined")
    with ray_pubsub.connect("shared") as connected:
        assert connected.publish({"joined.x": 1}, deliver=False)[0] == ["joined"]
        assert connected.address == server.address


RACE = """
import json, sys
import ray_pubsub
name, mine = json.loads(sys.argv[1])
with ray_pubsub.connect("shared"):  # both are in the cluster before they begin
    server = ray_pubsub.start(1, name=name)
    server.subscribe(mine, "race.x = 1", id=mine)
    print(json.dumps({"matches": len(server.publish({"race.x": 1})), "pid": server.stats().registry["pid"]}))
"""


def test_two_processes_that_start_one_server_have_the_same(server: Server, tmp_path: Path) -> None:
    told = finish(*(begin(RACE, "raced", mine, folder=tmp_path) for mine in ("race-a", "race-b")))
    assert told[0]["pid"] == told[1]["pid"]
    assert all(1 <= each["matches"] <= 2 for each in told)
    with ray_pubsub.connect("raced") as raced:
        assert sorted(raced.publish({"race.x": 1})[0]) == ["race-a", "race-b"]
        raced.stop()
    with pytest.raises(UnknownServerError):
        ray_pubsub.connect("raced")
    assert len(server.publish({"race.x": 1})) == 0  # the others go on


def test_another_protocol_is_told_and_harms_nobody(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.transport.protocol.PROTOCOL", 0)
    for join in (ray_pubsub.connect, lambda name: ray_pubsub.start(name=name)):
        with pytest.raises(
            ServerReleaseError, match=r"the server 'shared' runs ray-pubsub .* (install|stop the server)"
        ):
            join("shared")
    assert len(server.publish({"protocol.x": 1})) == 0


def test_no_server_of_that_name(server: Server) -> None:
    with pytest.raises(UnknownServerError, match="'shared'") as caught:
        ray_pubsub.connect("nowhere")
    assert (caught.value.name, "shared" in caught.value.running) == ("nowhere", True)


@pytest.mark.parametrize(
    "settings",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": 5},
        {"shards": 0},
        {"shards": "2"},
        {"coordinators": 0},
        {"data_dir": 5},
        {"data_dir": "a\0b"},
        {"engine": "fast"},
        {"options": 5},
        {"options": {"cache": 1}},
        {"limits": 5},
        {"levels": []},
        {"levels": "abc"},
        {"levels": ["a", "a"]},
        {"confirm": "yes"},
        {"mailbox": 5},
        {"mailbox": {"levels": ["a"]}},
        {"mailbox": {"capacity": 0}},
        {"mailbox": {"overflow": "explode"}},
        {"max_in_flight": 0},
        {"patience": -1},
        {"timeout": float("nan")},
        {"lease": "long"},
    ],
)
def test_bad_settings_start_nothing(cluster: Joined, settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        ray_pubsub.start(**{"name": "never", **settings})
    with pytest.raises(UnknownServerError):
        ray_pubsub.connect("never")


def test_a_start_that_fails_leaves_nothing_behind(cluster: Joined, tmp_path: Path) -> None:
    (tmp_path / "registry.sqlite").write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreError):
        ray_pubsub.start(1, tmp_path, "never")
    with pytest.raises(UnknownServerError):
        ray_pubsub.connect("never")
    with pytest.raises(StoreError):
        ray_pubsub.start(1, tmp_path / "registry.sqlite", "never")


def test_numbers_of_all_processes(server: Server) -> None:
    server.subscribe("counted", "counted.x = 1", id="counted")
    before = server.stats()
    server.publish([{"counted.x": 1}] * 10)
    after = server.stats()
    assert not after.unavailable
    assert after.coordinators[0]["events"] - before.coordinators[0]["events"] == 10
    assert after.coordinators[0]["matches"] - before.coordinators[0]["matches"] == 10
    assert sum(each["events"] for each in after.shards) - sum(each["events"] for each in before.shards) >= 10
    assert len({each["pid"] for each in [after.registry, *after.shards, *after.coordinators]}) == 4
    assert "Server('shared'" in repr(server)


FINDING = """
import json, sys
import ray_pubsub
(folder,) = json.loads(sys.argv[1])
by_name, by_data = ray_pubsub.connect("kept"), ray_pubsub.connect(data_dir=folder)
print(json.dumps({"addresses": [by_name.address, by_data.address], "name": by_data.name, "metrics": by_data.stats().metrics}))
"""


def test_a_server_is_found_by_its_name_or_its_data_folder(kept: Server, tmp_path: Path) -> None:
    """Without an address, whatever other clusters run on the machine."""
    (found,) = finish(begin(FINDING, kept.data_dir, folder=tmp_path, RAY_ADDRESS=None))
    assert found["addresses"] == [kept.address] * 2 and found["name"] == "kept"
    assert all(url.startswith("http://127.0.0.1:") and url.endswith("/metrics") for url in found["metrics"])
    assert "metrics for Prometheus: " in str(kept.stats())
    assert [note.data_dir for note in read_notes("kept")] == [kept.data_dir]


def test_a_full_mailbox_makes_room_by_its_setting(kept: Server) -> None:
    """Other settings are tests of the mailboxes alone."""
    kept.prioritize("urgent", "b", "urgent >= 1")
    kept.subscribe("full", "full.x >= 0", id="full-1")
    kept.subscribe("beside", "full.x = 0", id="beside-1")
    events = [{"full.x": number, "urgent": int(number in (0, 4)), "id": f"full-{number}"} for number in range(6)]
    outcomes = [kept.publish(event, event_id="id").deliveries for event in events]
    assert [each.event_id for each in kept.poll("full")] == ["full-0", "full-1", "full-2"]
    assert [each.dead for each in outcomes] == [0, 0, 0, 1, 1, 1]
    dead = kept.dead_letters("full")
    assert sorted(each.event_id for each in dead) == ["full-3", "full-4", "full-5"]
    assert {each.reason for each in dead} == {"overflow"}
    assert len(kept.poll("beside")) == 1, "who has room is not concerned"


def test_stopped_it_is_gone_and_with_its_folder_it_goes_on_where_it_was(kept: Server) -> None:
    folder = kept.data_dir
    assert folder is not None
    kept.subscribe("kept", "kept.x >= 1", id=1)
    kept.subscribe_many(interval_table(), subscriber="kept")
    kept.prioritize("kept", "b", "kept.x = 2")
    kept.publish({"kept.x": 2, "id": "e"}, event_id="id")
    with pytest.raises(StoreError, match=r"in use|used"):
        ray_pubsub.start(1, folder, "other")
    kept.stop()
    assert read_notes("kept") == []
    with pytest.raises(
        ray_pubsub.errors.ClusterError, match="no server of this user runs on this machine with its data in"
    ):
        ray_pubsub.connect(data_dir=folder)
    with ray_pubsub.start(2, folder, "kept") as again:
        assert again.settings.levels == ("a", "b") and again.settings.shards == 2
        result = again.publish([{"kept.x": 2, "id": "e"}, {"kept.x": 1, "id": "f"}], event_id="id")
        assert (sorted(result[0]), result[1], list(result.priorities)) == ([1, 2], [1], ["b", "a"])
        assert (result.deliveries.delivered, result.deliveries.duplicates) == (1, 2)
        found = again.poll("kept")
        assert [(each.event_id, each.subscription_id) for each in found][2:] == [("f", 1)]
        assert sorted(each.subscription_id for each in found[:2]) == [1, 2]


def interval_table() -> Any:
    import pyarrow as pa

    return pa.table({"id": [2], "attribute": ["kept.x"], "low": [2], "high": [None]})
