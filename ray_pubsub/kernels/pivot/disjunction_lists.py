"""Matches conjunctions of disjunctions (OpIndex section 6.1): a subscription has several pivots, which are looked up by value; the
candidates are then compared.

One disjunction of every subscription is the pivot, and each of its tests is an entry in lists like those of kernels/pivot/pivot_lists.py:
an event's code finds the entries whose test may hold as two runs. A candidate is compared disjunction by disjunction, those least likely
to hold first, up to the first that fails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch

__all__ = ["DisjunctionLists", "Scratch", "match_disjunctions", "weigh_disjunctions"]


class DisjunctionLists(NamedTuple):
    base: np.ndarray
    """Column → where its codes begin in the directory."""
    directory: np.ndarray
    entries: np.ndarray
    """The subscription of each entry, in pivot order."""
    universal: int
    """From this entry on they are those that every event compares."""
    disjunctions: np.ndarray
    """Subscription → its first disjunction."""
    members: np.ndarray
    """Disjunction → its first test."""
    tests: np.ndarray
    """tests[3 * i:3 * i + 3] are a test's column, low and high."""


class Scratch(NamedTuple):
    codes: np.ndarray
    """Zero, and left so."""
    seen: np.ndarray
    """Subscription → the last event that met it, as epoch + event."""
    candidates: np.ndarray


@compiled
def weigh_disjunctions(members, column, low, high, top, frequency):
    """Per disjunction how often one of its tests is expected to hold, the sum over its tests of frequency times width (OpIndex formula 1,
    with the test's own selectivity added); infinite if a test admits absence, since then no attribute finds it."""
    weights = np.zeros(len(members) - 1)
    for disjunction in range(len(weights)):
        for member in range(members[disjunction], members[disjunction + 1]):
            place = column[member]
            if low[member] <= 0:
                weights[disjunction] = np.inf
            elif low[member] <= high[member]:
                width = min(high[member], top[place]) - low[member] + 1
                weights[disjunction] += frequency[place] * (width / top[place])
    return weights


@inlined
def _holds(subscription, disjunctions, members, tests, codes):
    holds = True
    for disjunction in range(disjunctions[subscription], disjunctions[subscription + 1]):
        some = False
        for test in range(3 * members[disjunction], 3 * members[disjunction + 1], 3):
            code = codes[tests[test]]
            some |= (code >= tests[test + 1]) & (code <= tests[test + 2])
        if not some:
            holds = False
            break
    return holds


@compiled
def match_disjunctions(first_event, cells, lists, scratch, epoch, out_offsets, out):
    """Numbers of the matching subscriptions, each once, event by event from `first_event` on; returns the first event that may no longer
    fit `out`. The structs, and the events' Cells, come as plain tuples (kernels/pivot/pivot_lists.py)."""
    offsets, column, code = cells
    base, directory, entries, universal, disjunctions, members, tests = DisjunctionLists(*lists)
    codes, seen, candidates = Scratch(*scratch)
    events = len(offsets) - 1
    for event in range(first_event, events):
        filled = out_offsets[event]
        if filled + len(seen) > len(out):
            return event
        now = epoch + event
        for cell in range(offsets[event], offsets[event + 1]):
            codes[column[cell]] = code[cell]
        found = 0
        for cell in range(offsets[event], offsets[event + 1]):
            entry = (base[column[cell]] + code[cell]) * 4
            for run in range(entry, entry + 4, 2):
                for position in range(directory[run], directory[run + 1]):
                    subscription = entries[position]
                    candidates[found] = subscription
                    found += seen[subscription] != now  # met under several pivots, it is compared under the first
                    seen[subscription] = now
        for position in range(universal, len(entries)):
            candidates[found] = entries[position]
            found += 1
        for candidate in range(found):
            # Candidates lie anywhere in memory: asked for in time, they are there when they are compared.
            if candidate + 8 < found:
                prefetch(disjunctions, candidates[candidate + 8])
            if candidate + 4 < found:
                prefetch(tests, 3 * members[disjunctions[candidates[candidate + 4]]])
            out[filled] = candidates[candidate]
            filled += _holds(candidates[candidate], disjunctions, members, tests, codes)
        for cell in range(offsets[event], offsets[event + 1]):
            codes[column[cell]] = 0
        out_offsets[event + 1] = filled
    return events
