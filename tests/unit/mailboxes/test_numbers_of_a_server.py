"""The parts of a server's numbers that need no cluster: rates, rankings, sums over mailboxes, the metrics reported."""

from __future__ import annotations

import numpy as np

from actors.client.server_stats import ServerStats
from actors.client.server_stats_table import _refused
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.shard.match_ranking import Ranked, merge_rankings, rank
from actors.shard.subscription_columns import MatchCounts
from actors.telemetry.metrics import COUNTERS, GAUGES, Tagged, growth, numbers_of_mailboxes, numbers_of_stats
from actors.telemetry.process_memory import process_bytes
from actors.telemetry.rate_limited_log import RateLimitedLog
from actors.telemetry.recent_rate import WINDOW, RecentRate
from tests.unit.mailboxes.delivery_samples import SimulatedClock as Clock
from tests.unit.mailboxes.delivery_samples import batch_of


def counts(matches: list[int]) -> MatchCounts:
    numbers = np.arange(len(matches), dtype=np.int64)
    return MatchCounts(numbers, numbers + 1000, (numbers % 3).astype(np.int32), np.array(matches, np.int64))


def test_a_rate_is_of_the_last_seconds() -> None:
    clock = Clock()
    rate = RecentRate(clock)
    assert rate.per_second() == 0
    for _ in range(40):
        rate.add(50)
        clock.now += 0.5
    assert rate.per_second() == 100
    clock.now += 2
    assert 70 < rate.per_second() < 100
    clock.now += WINDOW + 1
    assert rate.per_second() == 0
    clock.now += 1e6
    rate.add(30)
    clock.now += 1
    assert 0 < rate.per_second() <= 30


def test_a_young_rate_is_over_its_own_age() -> None:
    clock = Clock()
    rate = RecentRate(clock)
    rate.add(10)
    clock.now += 2
    assert rate.per_second() == 5


def test_what_matches_most_and_what_never_did() -> None:
    found = rank(counts([0, 5, 0, 9, 5, 1]), 2)
    assert found.hot == (Ranked(1003, 0, 9), Ranked(1001, 1, 5))
    assert found.dead == (Ranked(1000, 0, 0), Ranked(1002, 2, 0))
    assert (found.dead_count, found.subscriptions) == (2, 6)


def test_rankings_where_there_is_little_to_rank() -> None:
    assert rank(counts([]), 3).hot == rank(counts([]), 3).dead == ()
    silent = rank(counts([0, 0, 0]), 2)
    assert (silent.hot, len(silent.dead), silent.dead_count) == ((), 2, 3)
    loud = rank(counts([2, 2, 2]), 2)
    assert ([each.id for each in loud.hot], loud.dead) == ([1000, 1001], ())


def test_rankings_of_shards_become_one() -> None:
    merged = merge_rankings([rank(counts([1, 0, 7]), 2), rank(counts([3, 0, 0]), 2)], 2)
    assert [each.matches for each in merged.hot] == [7, 3]
    assert (len(merged.dead), merged.dead_count, merged.subscriptions) == (2, 3, 6)


def test_many_failures_are_logged_seldom() -> None:
    clock = Clock()
    log = RateLimitedLog(5.0, clock)
    assert [log.due() for _ in range(3)] == [1, 0, 0]
    clock.now += 5
    assert [log.due() for _ in range(2)] == [3, 0]


def test_the_memory_of_this_process_is_some_megabytes() -> None:
    held = np.ones(2**25, np.uint8)  # just written: what was there before may have been reclaimed meanwhile
    assert process_bytes() > len(held)


def test_the_sums_over_mailboxes_are_those_of_each() -> None:
    clock = Clock()
    settings = MailboxSettings(levels=("low", "high"), deadlines={"high": 5.0})
    mailboxes = Mailboxes(None, settings, clock=clock)
    mailboxes.introduce({1: "a", 2: "b", 3: "c"})
    mailboxes.deliver(batch_of((0, "s1", 1, 1), (0, "s2", 2, 1), (1, "s1", 1, 0), (1, "s3", 3, 1)))
    clock.now += 2
    mailboxes.ack("a", mailboxes.poll("a", limit=1).deliveries())
    clock.now += 10
    mailboxes.poll("b").deliveries()
    summary = mailboxes.summary(most=1)
    every = mailboxes.stats()
    assert (summary.mailboxes, len(every)) == (3, 3)
    for name in ("delivered", "acked", "waiting", "in_flight", "dead", "waiting_bytes"):
        assert getattr(summary, name) == sum(getattr(each, name) for each in every), name
    assert (summary.delivered, summary.acked, summary.waiting, summary.in_flight) == (4, 1, 2, 1)
    assert summary.oldest_wait == 12
    # Of level high one was on time, one late, and one is overdue.
    assert summary.on_time == {"low": None, "high": 1 / 3}
    assert len(summary.fullest) == 1
    assert summary.to_dict()["on_time"] == summary.on_time


def test_the_time_before_a_delivery_reached_the_mailboxes_counts() -> None:
    clock = Clock()
    mailboxes = Mailboxes(None, MailboxSettings(levels=("low", "high"), deadlines={"high": 5.0}), clock=clock)
    mailboxes.introduce({1: "a"})
    mailboxes.deliver(batch_of((0, "s1", 1, 1), age=5.5))  # matching and waiting took longer than the deadline
    mailboxes.deliver(batch_of((0, "s2", 1, 1), age=4.0))
    mailboxes.deliver(batch_of((0, "s3", 1, 1)))
    clock.now += 2.0  # past the second one's deadline, too
    assert len(mailboxes.poll("a").deliveries()) == 3
    summary = mailboxes.summary(most=0)
    (high,) = (level for level in summary.levels if level.level == "high")
    assert (high.on_time, high.late, summary.on_time["high"]) == (1, 2, 1 / 3)


def test_the_sums_of_many_mailboxes_name_the_fullest() -> None:
    mailboxes = Mailboxes(None, MailboxSettings())
    rows = [(0, f"s{copy}", code, 0) for code in range(1, 301) for copy in range(3 if code == 170 else 1)]
    mailboxes.deliver(batch_of(*rows))
    summary = mailboxes.summary(most=2)
    assert (summary.mailboxes, summary.waiting) == (300, 302)
    assert summary.fullest[0].subscriber_code == 170
    assert len(summary.fullest) == 2
    assert mailboxes.summary(most=0).fullest == ()


def test_counters_are_told_by_how_much_they_have_grown() -> None:
    told: dict[Tagged, float] = {("events", ()): 5.0, ("acked", ()): 9.0}
    now: dict[Tagged, float] = {("events", ()): 8.0, ("acked", ()): 4.0, ("batches", ()): 2.0, ("version", ()): 1.0}
    assert growth(told, now, ["events", "acked", "batches"]) == {("events", ()): 3.0, ("batches", ()): 2.0}


def test_metrics_are_those_of_the_stats() -> None:
    routes = {"fan_out": None, "rerouted": 5, "every": 60.0}
    told = numbers_of_stats("registry", {"subscriptions": 3, "bytes": None, "version": 2, "pid": 7, "routes": routes})
    assert told == {("subscriptions", ()): 3.0, ("version", ()): 2.0, ("rerouted", ()): 5.0}
    shard = numbers_of_stats("shard", {"state": "loading", "events": 4})
    assert shard == {("events", ()): 4.0, ("loading", ()): 1.0}
    refused = numbers_of_stats("coordinator", {"refused": 3, "refused_by_level": {"low": 3, "high": 0}})
    name = "refused_by_level"
    assert refused == {("refused", ()): 3.0, (name, (("level", "low"),)): 3.0, (name, (("level", "high"),)): 0.0}
    mailboxes = numbers_of_mailboxes(Mailboxes(None, MailboxSettings()).summary(0))
    assert {name for name, _ in mailboxes} == {*COUNTERS["mailboxes"], *GAUGES["mailboxes"]}
    assert mailboxes["on_time_rate", (("level", "normal"),)] == 1.0  # nothing was due, so nothing is late


def test_the_table_says_which_levels_were_refused() -> None:
    told = {"refused": 1203, "refused_by_level": {"low": 1200, "normal": 3, "critical": 0}}
    assert _refused(told) == "1,203 (normal 3, low 1,200)"
    assert _refused({"refused": 0, "refused_by_level": {"low": 0}}) == "0"


def test_who_does_not_answer_is_told() -> None:
    away = [{"number": 0, "state": "away"}]
    stats = ServerStats("s", "here", None, {}, away, [{"number": 0}], None, None, {"shard 0": "its process died"})
    text = str(stats)
    assert "no answer from shard 0: its process died" in text
    assert text.count("away") == 2
    assert stats.to_dict()["unavailable"] == {"shard 0": "its process died"}
    assert stats.events_per_second == 0
