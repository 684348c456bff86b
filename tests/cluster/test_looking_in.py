"""Looking in: what `stats` and the logs say agrees with what was done."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined


@pytest.fixture(scope="module")
def seen(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two coordinators, so that mailboxes are in a process of their own; an engine with a cache."""
    folder = tmp_path_factory.mktemp("seen")
    mailbox: ray_pubsub.MailboxOptions = {"deadlines": {"critical": 600.0}}
    with ray_pubsub.start(
        2, folder, "seen", coordinators=2, engine="dexin", options={"cache": 16}, mailbox=mailbox, lease=1.0
    ) as server:
        ids = range(4000)
        table = {
            "id": list(ids),
            "subscriber": [f"desk-{number % 5}" for number in ids],
            "expression": [f"x >= {number} and x <= {number + 20}" for number in ids],
        }
        assert server.subscribe_many(pa.table(table)).added == len(ids)
        server.prioritize("urgent", "critical", "x = 100")
        for _ in range(4):  # by both coordinators
            assert len(server.publish([{"x": 100}, {"x": 2000}, {"x": -1}])) == 42
        server.ack(server.poll("desk-0", limit=1))
        yield server


def test_counts_are_those_of_what_was_done(seen: Server) -> None:
    stats = seen.stats(hot=3)
    assert stats.unavailable == {}
    assert (stats.registry["subscriptions"], stats.registry["subscribers"], stats.registry["rules"]) == (4000, 5, 1)
    assert [shard["state"] for shard in stats.shards] == ["serving", "serving"]
    assert sum(shard["subscriptions"] for shard in stats.shards) == 4000
    assert sum(shard["clauses"] for shard in stats.shards) == 4000
    # What did not answer in time on a busy machine is asked again, and counted again by those who work; deliveries are made once.
    assert sum(shard["matches"] for shard in stats.shards) >= 168
    assert stats.registry["bytes"] > 0
    for shard in stats.shards:
        assert shard["index"].blocks_by_engine() == {"dexin": 1}
        assert shard["index"].cache.hits > 0
        assert shard["memory_bytes"] > shard["index_bytes"] > 0
        assert shard["latencies"]["p50"] <= shard["latencies"]["p99"]
    assert sum(each["events"] for each in stats.coordinators) >= 12
    assert sum(each["matches"] for each in stats.coordinators) >= 168
    assert all(each["lease_left"] > 0 for each in stats.coordinators)
    assert {each["refused"] for each in stats.coordinators} == {0}
    assert stats.mailboxes is not None
    assert (stats.mailboxes.mailboxes, stats.mailboxes.delivered, stats.mailboxes.acked) == (5, 168, 1)
    assert stats.mailboxes.on_time["critical"] == 1.0


def test_hot_and_dead_subscriptions_are_named(seen: Server) -> None:
    ranking = seen.stats(hot=3).ranking
    assert ranking is not None
    assert len(ranking.hot) == 3 and all(each.matches >= 4 for each in ranking.hot)
    assert {each.subscriber for each in ranking.hot} <= {f"desk-{number}" for number in range(5)}
    assert all(80 <= int(each.id) <= 100 or 1980 <= int(each.id) <= 2000 for each in ranking.hot)
    assert (ranking.dead_count, ranking.subscriptions, len(ranking.dead)) == (4000 - 42, 4000, 3)
    assert seen.stats(hot=0).ranking is None


def test_it_is_read_by_people_and_by_programs(seen: Server) -> None:
    stats = seen.stats(hot=2)
    text = str(stats)
    for part in (
        "server 'seen'",
        "4,000 subscriptions, 5 subscribers known, 1 rule,",
        "serving",
        "dexin",
        "critical 100.0%",
        "never matched",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 80 + len(str(seen.data_dir))
    plain = json.loads(json.dumps(stats.to_dict()))
    assert plain["shards"][0]["index"]["blocks"][0]["engine"] == "dexin"
    assert plain["mailboxes"]["on_time"]["critical"] == 1.0


@pytest.mark.parametrize("hot", [-1, 1.5, True, "10", 10**6])
def test_nonsense_is_refused(seen: Server, hot: object) -> None:
    with pytest.raises(ray_pubsub.errors.SettingError, match="hot"):
        seen.stats(hot=hot)  # type: ignore[arg-type]


def test_a_plan_is_told_shard_by_shard(seen: Server) -> None:
    plan = seen.explain({"x": 100})
    assert plan.matches == 21
    assert str(plan).startswith("21 matches; visits 2 of 2 shards")
    assert "shard 1: " in str(plan)
    assert json.loads(json.dumps(plan.to_dict()))["of"] == 2
    assert seen.explain({"y": 1}).shards == {}


def test_a_killed_shard_is_told_and_so_is_its_return(seen: Server) -> None:
    before = seen.stats().shards[0]
    os.kill(before["pid"], signal.SIGKILL)
    assert len(seen.publish([{"x": 100}], deliver=False)) == 21
    after = seen.stats().shards[0]
    assert after["pid"] != before["pid"]
    assert (after["epoch"], after["state"], after["subscriptions"]) == (
        before["epoch"] + 1,
        "serving",
        before["subscriptions"],
    )
    assert "epoch" in str(seen.stats())


def test_logs_name_who_and_which(seen: Server, cluster: Joined) -> None:
    """After the kill above: the shard's new instance, and the publication that waited for it."""
    logs = "\n".join(
        path.read_text(errors="replace")
        for path in Path(os.environ["RAY_TMPDIR"]).glob("*/r/session_latest/logs/worker-*.err")
    )
    lines = [line for line in logs.splitlines() if "[seen " in line]
    lineage = re.search(r"opened epoch=1 version=\d+ lineage=(\w+) shards=2 coordinators=2", "\n".join(lines))
    assert lineage is not None
    epochs = re.findall(
        rf"\[seen shard 0\] .* loaded shard=0 epoch=(\d+) version=\d+ lineage={lineage[1]}", "\n".join(lines)
    )
    assert sorted(epochs) == ["1", "2"]
    assert any(re.search(r"\[seen coordinator \d\] .* retried idempotency_key=\w+ retries=\d+", line) for line in lines)
    assert any(re.search(r"\[seen coordinator 1\] .* attached coordinator=1 epoch=1", line) for line in lines)
