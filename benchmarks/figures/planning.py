"""DEXIN Figs. 15 and 16, GEM Fig. 11: the greedy decision beside the optimal one, as cost by the papers' formula and as time. Both plans
are carried out by the same kernel; time to decide is measured apart."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import ray_pubsub
from benchmarks.figures.sweeps import Scale
from benchmarks.reference.optimal_plan import exhaustive_optimum, plan_cost
from ray_pubsub.columns.event_codes import EventCodes, encode_events
from ray_pubsub.engines.papers.dexin import DexinSegment
from ray_pubsub.engines.papers.dexin_plan import Floats, Plan, published_plan
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import Ranges, dexin, gem, generate_ranges

__all__ = ["PLANNING", "measure_planning"]

PLANNING = {
    # Section 4.3 draws the constraints of each attribute uniformly or by Zipf's law, so that matching rates differ.
    "dexin-planning": ("attributes M", dexin(distribution="mixed").having(event_distribution="uniform")),
    "gem-planning": ("dimensions M", gem()),
}
GREEDY, OPTIMAL = "greedy", "optimal"


def attributes_of(scale: Scale) -> list[int]:
    return [count for count in (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22) if count <= scale.attributes]


def measure_planning(name: str, place: int, scale: Scale) -> list[dict[str, Any]]:
    """Rows of the series "greedy" and "optimal": `value` is the cost of formula (6), `mean_ms` the time of carrying it out, and a second
    row each with the time to decide in it. GEM's formula (3) is the same sum; its plans are carried out by the same pipeline."""
    base: Ranges = PLANNING[name][1]
    attributes = attributes_of(scale)[place]
    made = generate_ranges(
        base.having(subscriptions=scale.million, attributes=attributes, events=min(scale.events, 40), open_bounds=False)
    )
    index = ray_pubsub.MatchIndex("dexin", cache=0, paper_costs=True)
    index.add_predicates(made.predicates())
    segment, codes = inside(index, made.event_dicts())
    rates = np.maximum(segment._rates(codes, 0, made.events), 0.0)
    model = (rates, 1 - rates, np.ones_like(rates))
    rows = []
    found = []
    for series, decide in ((GREEDY, lambda: published_plan(rates)), (OPTIMAL, lambda: exhaustive_optimum(*model))):
        start = time.process_time()
        plan = decide()
        deciding = (time.process_time() - start) * 1e3 / made.events
        cost = plan_cost(plan, *model)
        times, matches = carried_out(segment, codes, plan, scale.repeats)
        found.append(matches)
        shared = {"sweep": name, "place": place, "x": attributes, "status": "ok", "events": made.events}
        shared |= {"subscriptions": made.subscriptions, "value": float(cost.mean()), "matches": matches / made.events}
        rows.append(shared | {"series": series, "mean_ms": float(times.mean()), "std_ms": float(times.std())})
        whole = times + deciding
        rows.append(
            shared
            | {"series": f"{series}, with deciding", "mean_ms": float(whole.mean()), "std_ms": float(whole.std())}
        )
    assert found[0] == found[1] == sum(map(len, made.matches())), "a plan changes the matches"
    return rows


def inside(index: ray_pubsub.MatchIndex, dicts: list[dict[str, int]]) -> tuple[DexinSegment, EventCodes]:
    """Returns the one segment of an index, and events in its codes."""
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    (segment,) = engine.snapshot.blocks
    assert isinstance(segment, DexinSegment)
    return segment, encode_events(from_dicts(dicts), segment.coded.space, segment._vocabulary)


def carried_out(segment: DexinSegment, codes: EventCodes, plan: Plan, repeats: int) -> tuple[Floats, int]:
    """Milliseconds per event, and all matches."""
    events = len(plan.exclusive)
    times, total = np.full(events, np.inf), 0
    for _ in range(repeats + 1):  # the first run compiles
        total = 0
        for event in range(events):
            cells = slice(int(codes.offsets[event]), int(codes.offsets[event + 1]))
            one = EventCodes(np.array([0, cells.stop - cells.start]), codes.column[cells], codes.code[cells])
            offsets, out = np.zeros(2, np.int64), np.empty(4096, np.int32)
            start = time.thread_time()
            segment._perform(
                Plan(plan.order[event : event + 1], plan.exclusive[event : event + 1]), one, 0, offsets, out
            )
            times[event] = min(times[event], (time.thread_time() - start) * 1e3)
            total += int(offsets[-1])
    return times, total
