"""Ranks the subscriptions of a server: those that match most, and some that have never matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.shard.subscription_columns import MatchCounts

__all__ = ["Ranked", "Ranking", "merge_rankings", "rank"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A subscription in a ranking."""

    id: str | int
    subscriber: Any
    """The name of the subscriber; in a shard's own ranking, the server's code of it."""
    matches: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The subscriptions that match most and some that never matched. Matches are counted since a subscription came to its shard, or
    since the shard restarted."""

    hot: tuple[Ranked, ...]
    """The subscriptions that match most, in descending order."""
    dead: tuple[Ranked, ...]
    """Some of the subscriptions that have not matched, the oldest first."""
    dead_count: int
    """The number of subscriptions that have not matched."""
    subscriptions: int


def rank(counts: MatchCounts, most: int) -> Ranking:
    """Ranks the subscriptions of one shard. Among equals the older one comes first."""
    matches = counts.matches
    never = matches == 0
    kept = min(most, len(matches) - int(never.sum()))
    if kept:
        least = np.partition(matches, len(matches) - kept)[len(matches) - kept]
        chosen = np.flatnonzero(matches >= least)
        hot = chosen[np.lexsort((counts.numbers[chosen], -matches[chosen]))][:kept]
    else:
        hot = np.empty(0, np.int64)
    silent = np.flatnonzero(never)
    dead = silent[np.argsort(counts.numbers[silent], kind="stable")][:most]
    return Ranking(_rows(counts, hot), _rows(counts, dead), len(silent), len(matches))


def merge_rankings(rankings: Sequence[Ranking], most: int) -> Ranking:
    """Merges the rankings of all shards."""
    hot = sorted((each for ranking in rankings for each in ranking.hot), key=lambda each: -each.matches)
    dead = [each for ranking in rankings for each in ranking.dead]
    return Ranking(
        tuple(hot[:most]),
        tuple(dead[:most]),
        sum(ranking.dead_count for ranking in rankings),
        sum(ranking.subscriptions for ranking in rankings),
    )


def _rows(counts: MatchCounts, places: Any) -> tuple[Ranked, ...]:
    columns = (counts.ids[places].tolist(), counts.subscribers[places].tolist(), counts.matches[places].tolist())
    return tuple(map(Ranked, *columns))
