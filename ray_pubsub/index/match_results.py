"""Converts the slots that an engine found to a MatchBatch; or, for passing on, to matches in which each matched subscription is named
once. That takes two or four bytes a match, and a subscription is looked up and sent once, however many events of the batch match it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.contract import Hits, View
from ray_pubsub.index.catalogue import Catalogue
from ray_pubsub.kernels.index.distinct_slots import count_places, mark_slots
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.model.match_batch import MatchBatch
from ray_pubsub.model.single_event import SingleEvent
from ray_pubsub.model.slot_metadata import Later, MatchedMetadata

__all__ = ["DistinctMatches", "distinct_matches", "distinct_slots", "matched", "read_for"]

MANY = 8
"""Matches are many if there is one for every this many slots: marking slots is then cheaper than naming every match."""


class DistinctMatches(NamedTuple):
    """Event number i matches `ids[places[offsets[i]:offsets[i + 1]]]`. If matches are few, an id may occur several times."""

    offsets: NDArray[np.int64]
    places: NDArray[Any]
    """Numbers of 16 or 32 bits."""
    ids: NDArray[Any]
    times: NDArray[np.int32]
    """For each id its number of matches."""


EACH, ONCE = np.arange(256, dtype=np.int32), np.ones(256, np.int32)
"""The places of the matches of a single event, and how often each occurs; columns of a few numbers take longer to make than to match."""
NOTHING = np.zeros(2, np.int64)
EACH.flags.writeable = NOTHING.flags.writeable = (
    False  # nobody may change what all share; ONCE is passed to kernels, which only read it
)


def distinct_slots(slots: NDArray[np.int64], end: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32]]:
    """Returns for each match its place among the distinct slots; those slots; and how often each occurs. Slots must be below `end`."""
    if len(slots) * MANY < end:
        return np.arange(len(slots), dtype=np.int32), slots, np.ones(len(slots), np.int32)
    places, marks = np.empty(len(slots), np.int32), np.zeros(end, np.int32)
    firsts = np.empty(min(len(slots), end), np.int32)
    firsts = firsts[: mark_slots(slots, marks, places, firsts)]
    times = np.zeros(len(firsts), np.int32)
    count_places(places, times)
    narrow = places.astype(np.uint16) if len(firsts) <= 2**16 else places
    return narrow, slots[firsts], times


def read_for(view: View, events: Any, event_id: str | None, strict: bool = False) -> EventBatch:
    """Reads the attributes of events that a view needs."""
    batch = read_events(events, event_id, None if strict else view.attributes, strict=strict)
    if batch is events:
        batch.check_covers(view.attributes)
    return batch


def matched(catalogue: Catalogue, view: View, batch: EventBatch, since: Later) -> MatchBatch:
    """Returns the matches of a batch, with ids. `since`: watched before the view was taken."""
    hits = view.match(batch)
    ids = catalogue.ids(hits.slots)
    moment = batch._moment  # set only if a subscription uses now()
    lookup = MatchedMetadata(ids, hits.slots, catalogue.carried, since)
    return MatchBatch(_for_input(hits, batch), ids, batch.input_ids, None, batch.errors, batch.warnings, moment, lookup)


def distinct_matches(catalogue: Catalogue, view: View, batch: EventBatch) -> DistinctMatches:
    """Returns the same, with each subscription named once if matches are many."""
    if isinstance(batch, SingleEvent) and batch.positions is None:
        return _of_single(catalogue, view.match_single(batch))
    hits = view.match(batch)
    places, slots, times = distinct_slots(hits.slots, catalogue.next_slot)
    return DistinctMatches(_for_input(hits, batch), places, catalogue.ids(slots), times)


def _of_single(catalogue: Catalogue, slots: NDArray[np.int64]) -> DistinctMatches:
    """Returns the matches of one event, in which no subscription occurs twice."""
    count = len(slots)
    if not count:
        return DistinctMatches(NOTHING, EACH[:0], catalogue.ids(slots), ONCE[:0])
    if count > len(EACH):
        return DistinctMatches(
            np.array([0, count]), np.arange(count, dtype=np.int32), catalogue.ids(slots), np.ones(count, np.int32)
        )
    return DistinctMatches(np.array([0, count]), EACH[:count], catalogue.ids(slots), ONCE[:count])


def _for_input(hits: Hits, batch: EventBatch) -> NDArray[np.int64]:
    """Returns offsets for the events as they were given, in which bad ones have no matches."""
    if batch.positions is None:
        return hits.offsets
    counts = np.zeros(batch.input_size, dtype=np.int64)
    counts[batch.positions] = np.diff(hits.offsets)
    return np.concatenate([[0], np.cumsum(counts)])
