"""The papers' experiments as a table: what varies, which workload, which engines. One sweep is measured once and serves all figures that
look at it (pictures.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from ray_pubsub.workloads import (
    Ranges,
    SparseTests,
    Workload,
    Written,
    dexin,
    forms,
    gem,
    generate_ranges,
    generate_sparse,
    keywords,
    prefixes,
    product_sets,
    products,
    rein,
)

__all__ = ["CALL", "SCALES", "SERIES", "SWEEPS", "Point", "Scale", "Series", "Sweep", "places_among"]

Made = Workload | Written


class Scale(NamedTuple):
    """How large an experiment is. `million`: subscriptions that stand for the papers' million."""

    name: str
    million: int
    events: int
    repeats: int
    """An event's time is the least of this many."""
    checked: int
    """Events whose matches are compared with the plain reference."""
    attributes: int
    """At most, in sweeps over them with exponential planning."""
    builds: int
    """An index is built this many times, for the standard deviation."""
    points: int
    """At most, of a sweep: the first, the last and some between them."""

    @property
    def whole(self) -> bool:
        """Whether the papers' own numbers are measured."""
        return self.million == SCALES["paper"].million


SCALES = {
    "small": Scale("small", 10_000, 12, 3, 12, 12, 3, 4),
    "paper": Scale("paper", 1_000_000, 200, 2, 20, 20, 1, 99),
}


class Series(NamedTuple):
    """A curve: an engine with options, under the name that the legend shows."""

    engine: str
    options: dict[str, Any]


SERIES: dict[str, Series] = {
    "auto": Series("auto", {}),
    "dexin": Series("dexin", {}),
    "dexin, published": Series("dexin", {"cache": 0, "paper_costs": True}),
    "dexin, exclusive only": Series("dexin", {"cache": 0, "exclusive_only": True}),
    "dexin, inclusive only": Series("dexin", {"cache": 0, "inclusive_only": True}),
    "gem": Series("gem", {}),
    "gem, published ω=0": Series("gem", {"cache": 0, "tau": 80, "paper_costs": True}),
    "gem, published ω=10": Series("gem", {"cache": 10, "tau": 80, "paper_costs": True}),
    "gem, published ω=20": Series("gem", {"cache": 20, "tau": 80, "paper_costs": True}),
    "rein": Series("rein", {}),
    "opindex": Series("opindex", {}),
    "opindex, unoptimised": Series("opindex", {"segments": 1, "bits": 1}),
    "siena": Series("siena", {}),
    "tama": Series("tama", {}),
    "h-tree": Series("h-tree", {}),
    "be-tree": Series("be-tree", {}),
    "k-index": Series("k-index", {}),
    "sf": Series("sf", {}),
    "column scan": Series("columns", {}),
    "a call alone": Series("auto", {}),
}
CALL = "a call alone"
"""What a call costs in Python, on an index that holds nothing: all engines pay it, and at small sizes the fast ones take little more."""

OURS = ("auto", "dexin", "gem", "rein", "opindex")
SCANS = ("column scan", "sf", CALL)
OF_DEXIN = (*OURS, "dexin, published", "siena", "tama", "h-tree", "be-tree", *SCANS)
OF_GEM = (*OURS, "gem, published ω=0", "gem, published ω=10", "gem, published ω=20", "siena", "tama", "h-tree", *SCANS)
OF_REIN = (*OURS, "siena", "tama", "h-tree", "be-tree", *SCANS)
OF_OPINDEX = (*OURS, "opindex, unoptimised", "be-tree", "k-index", "siena", "sf", CALL)
WRITTEN = (*OURS, CALL)


class Point(NamedTuple):
    """One place on the x axis. `options`: of all engines there, on top of their own."""

    x: float
    make: Callable[[], Made]
    options: dict[str, Any] = {}  # noqa: RUF012  (a NamedTuple's default is never changed)
    label: str = ""
    """What a table shows instead of x."""
    tests: int = 0
    """About how many tests the subscriptions have, from which the memory that they need is estimated before they are made."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """`points` says for a scale what is measured."""

    name: str
    x: str
    points: Callable[[Scale], list[Point]]
    series: tuple[str, ...]
    updates: bool = False
    """Whether single additions and removals are measured, too."""
    each_event: bool = False
    """Whether the time and the matches of every event at the last point are kept."""
    builds: bool = False
    """Whether a figure shows how long building takes: then it is repeated for the standard deviation."""
    every_point: bool = False
    """Whether all points are measured whatever the scale says."""

    def chosen(self, scale: Scale) -> list[tuple[int, Point]]:
        """Returns the points that are measured at a scale, each with its place among all points of the sweep: so a run with few points
        is continued by one with more."""
        found = self.points(scale)
        places = range(len(found)) if self.every_point else places_among(len(found), scale.points)
        return [(place, found[place]) for place in places]


def places_among(count: int, most: int) -> list[int]:
    """Returns the first, the last and evenly spread places between them, at most `most`."""
    if count <= most or most < 2:
        return list(range(count))[-most:]
    return [round(step * (count - 1) / (most - 1)) for step in range(most)]


def over(
    base: Ranges | SparseTests, parameter: str, values: tuple[float, ...], *, small: tuple[float, ...] = ()
) -> Callable[[Scale], list[Point]]:
    """Points that differ in one parameter. Subscriptions are given in the papers' millions. `small`: other values below the papers' scale,
    where theirs would take too long even so."""

    def points(scale: Scale) -> list[Point]:
        found = []
        for value in values if scale.whole or not small else small:
            changed: dict[str, Any] = {
                "events": scale.events,
                "subscriptions": int(base.subscriptions / 1e6 * scale.million),
            }
            shown = value
            if parameter == "subscriptions":
                shown = changed[parameter] = int(value * scale.million)
            elif parameter == "width":
                changed[parameter] = (value, value)
            elif parameter == "constrained":
                changed |= {"constrained": int(value), "attributes": 2 * int(value)}
            elif parameter in ("matching_rate", "points", "equalities", "skew"):
                changed[parameter] = value
            else:
                changed[parameter] = int(value)
            setting = base.having(**changed)
            found.append(Point(shown, _maker(setting), tests=_tests_of(setting)))
        return found

    return points


def _tests_of(setting: Ranges | SparseTests) -> int:
    each = (setting.constrained or setting.attributes) if isinstance(setting, Ranges) else (setting.largest + 1) / 2
    return int(setting.subscriptions * each)


def _maker(setting: Ranges | SparseTests) -> Callable[[], Made]:
    if isinstance(setting, Ranges):
        return lambda: generate_ranges(setting)
    return lambda: generate_sparse(setting)


def _for_a_cloud(scale: Scale) -> list[Point]:
    """REIN Figs. 7 and 10: a cloud of events needs more of them than a mean does."""
    return over(rein(), "subscriptions", (0.2, 0.6, 1.0, 1.4, 2.0))(scale._replace(events=max(100, scale.events)))


def _distributions(scale: Scale) -> list[Point]:
    """REIN Table V: three distributions at several sizes."""
    rows = [
        (int(millions * scale.million), name)
        for millions in (0.2, 1.0, 2.0)
        for name in ("uniform", "normal", "pareto")
    ]
    return [
        Point(
            place,
            _maker(rein(subscriptions=size, events=scale.events, distribution=name)),
            label=f"{name}, {size:,} subscriptions",
        )
        for place, (size, name) in enumerate(rows)
    ]


def _buckets(scale: Scale) -> list[Point]:
    make = _maker(rein(subscriptions=2 * scale.million, events=scale.events))
    return [Point(buckets, make, {"buckets": buckets}) for buckets in (16, 50, 200, 1000, 5000, 20_000)]


def _capacities(scale: Scale) -> list[Point]:
    make = _maker(SparseTests(subscriptions=scale.million, events=scale.events))
    return [Point(capacity, make, {"capacity": capacity}) for capacity in (5, 20, 50, 100, 150, 250)]


WRITTEN_TESTS = 3
"""A test that is written as a text counts as this many: the texts are kept, too."""


def _words(words: float, intervals: bool) -> Callable[[Scale], list[Point]]:
    def points(scale: Scale) -> list[Point]:
        sizes = [size * scale.million for size in (1, 2, 3, 4, 5)]
        return [
            Point(size, partial(keywords, size, words, intervals=intervals, events=scale.events), tests=3 * size)
            for size in sizes
        ]

    return points


def _products(parameter: str, kind: Literal["=", "in"]) -> Callable[[Scale], list[Point]]:
    """OpIndex Fig. 12: equalities, or sets of values, which are written as texts."""

    def make(size: int, largest: int, events: int) -> Made:
        return products(size, largest, events=events) if kind == "=" else product_sets(size, largest, events=events)

    def points(scale: Scale) -> list[Point]:
        if parameter == "subscriptions":
            given = [(size * scale.million, 8) for size in (1, 2, 3, 4, 5)]
        else:
            given = [(scale.million, largest) for largest in (4, 8, 12, 16)]
        return [
            Point(
                size if parameter == "subscriptions" else largest,
                partial(make, size, largest, scale.events),
                tests=size * largest * (1 if kind == "=" else 3),
            )
            for size, largest in given
        ]

    return points


def _forms(form: Any, parameter: str) -> Callable[[Scale], list[Point]]:
    def points(scale: Scale) -> list[Point]:
        few, events = scale.million if scale.whole else scale.million // 4, min(scale.events, 24)
        if parameter == "subscriptions":
            given = [(size * few, 5) for size in ((1, 5, 10, 20) if scale.whole else (1, 2, 4, 8))]
        else:
            given = [(few, most) for most in (2, 3, 5, 8)]
        return [
            Point(
                size if parameter == "subscriptions" else most,
                partial(forms, size, form, most, events=events),
                tests=size * most * WRITTEN_TESTS,
            )
            for size, most in given
        ]

    return points


def _prefixes(parameter: str) -> Callable[[Scale], list[Point]]:
    def points(scale: Scale) -> list[Point]:
        few, events = scale.million if scale.whole else scale.million // 4, min(scale.events, 24)
        if parameter == "share":
            given = [(share, 3) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        else:
            given = [(0.5, length) for length in (1, 2, 3, 4, 5)]
        return [
            Point(
                share if parameter == "share" else length,
                partial(prefixes, few, share, length, events=events),
                tests=few * 5 * WRITTEN_TESTS,
            )
            for share, length in given
        ]

    return points


MILLIONS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75)
EVEN = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22)
WIDTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SPARSE = SparseTests()

SWEEPS: dict[str, Sweep] = {
    sweep.name: sweep
    for sweep in (
        Sweep("dexin-n", "subscriptions N", over(dexin(), "subscriptions", MILLIONS), OF_DEXIN, updates=True, builds=True),
        Sweep("dexin-m", "attributes M", over(dexin(), "attributes", EVEN), OF_DEXIN),
        Sweep("dexin-width", "width θ", over(dexin(), "width", WIDTHS), OF_DEXIN),
        Sweep("dexin-zipf-n", "subscriptions N", over(dexin(distribution="zipf"), "subscriptions", MILLIONS), OF_DEXIN),
        Sweep("dexin-zipf-m", "attributes M", over(dexin(distribution="zipf"), "attributes", EVEN), OF_DEXIN),
        Sweep("dexin-zipf-width", "width θ", over(dexin(distribution="zipf"), "width", WIDTHS), OF_DEXIN),
        Sweep("dexin-cardinality", "cardinality η", over(dexin(), "cardinality", (1e2, 1e3, 1e4, 1e5, 1e6)), OF_DEXIN),
        Sweep("dexin-points", "share of points λ", over(dexin(), "points", (0.1, 0.3, 0.5, 0.7, 0.9)), OF_DEXIN),
        Sweep("dexin-rate", "matching rate ξ", over(dexin(), "matching_rate", (0.001, 0.01, 0.05, 0.1, 0.2)), OF_DEXIN),
        Sweep(
            "dexin-methods",
            "matching rate ξ",
            over(dexin(), "matching_rate", (0.001, 0.01, 0.05, 0.1, 0.2)),
            ("auto", "dexin", "dexin, published", "dexin, exclusive only", "dexin, inclusive only"),
        ),
        Sweep("gem-n", "subscriptions N", over(gem(), "subscriptions", (0.01, 0.1, 0.5, 1.0, 1.5, 2.0)), OF_GEM, updates=True, builds=True),
        Sweep("gem-m", "dimensions M", over(gem(), "attributes", EVEN[:-1]), OF_GEM),
        Sweep("gem-width", "width θ", over(gem(), "width", WIDTHS[:-1]), OF_GEM),
        Sweep(
            "rein-n", "subscriptions n", _for_a_cloud, OF_REIN,
            updates=True, each_event=True, builds=True,
        ),
        Sweep("rein-constraints", "constraints k (of 2k attributes)", over(rein(), "constrained", tuple(range(5, 24, 2))), OF_REIN),
        Sweep("rein-buckets", "buckets b", _buckets, ("rein",)),
        Sweep(
            "rein-distribution", "distribution of constraints", _distributions, (*OURS, "siena", "tama", "h-tree", "column scan"),
            every_point=True,
        ),
        Sweep("rein-width", "width w", over(rein(), "width", (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)), OF_REIN),
        Sweep("opindex-d", "dimensions d", over(SPARSE, "dimensions", (2e4, 3e4, 4e4, 5e4, 6e4)), OF_OPINDEX, builds=True),
        Sweep("opindex-capacity", "capacity of a BE-Tree's node", _capacities, ("be-tree",), builds=True),
        Sweep("opindex-n", "subscriptions N", over(SPARSE, "subscriptions", (1, 10, 20, 30, 40), small=(1, 2, 4, 8)), OF_OPINDEX,
              updates=True, builds=True),
        Sweep("opindex-values", "values (the paper's sigma)", over(SPARSE, "values", (50, 200, 800, 3200, 12_800)), OF_OPINDEX),
        Sweep("opindex-largest", "largest subscription Γmax", over(SPARSE, "largest", (4, 8, 12, 16, 20)), OF_OPINDEX, builds=True),
        Sweep("opindex-event", "size of events m", over(SPARSE, "event_size", (20, 40, 60, 80, 100, 120)), OF_OPINDEX),
        Sweep("opindex-equalities", "share of equalities", over(SPARSE, "equalities", (0.2, 0.4, 0.6, 0.8, 1.0)), OF_OPINDEX),
        Sweep("opindex-zipf", "Zipf's exponent", over(SPARSE, "skew", (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)), OF_OPINDEX),
        Sweep("opindex-twitter-equal", "subscriptions N", _words(5.4, False), OF_OPINDEX, builds=True),
        Sweep("opindex-twitter-interval", "subscriptions N", _words(5.4, True), OF_OPINDEX, builds=True),
        Sweep("opindex-wiki-equal", "subscriptions N", _words(123, False), OF_OPINDEX),
        Sweep("opindex-wiki-interval", "subscriptions N", _words(123, True), OF_OPINDEX),
        Sweep("opindex-ebay-n-equal", "subscriptions N", _products("subscriptions", "="), OF_OPINDEX, builds=True),
        Sweep("opindex-ebay-n-set", "subscriptions N", _products("subscriptions", "in"), OF_OPINDEX, builds=True),
        Sweep("opindex-ebay-largest-equal", "largest subscription Γmax", _products("largest", "="), OF_OPINDEX),
        Sweep("opindex-ebay-largest-set", "largest subscription Γmax", _products("largest", "in"), OF_OPINDEX),
        Sweep("opindex-cnf-n", "subscriptions N", _forms("cnf", "subscriptions"), WRITTEN),
        Sweep("opindex-dnf-n", "subscriptions N", _forms("dnf", "subscriptions"), WRITTEN),
        Sweep("opindex-cnf-clauses", "clauses at most", _forms("cnf", "clauses"), WRITTEN),
        Sweep("opindex-dnf-clauses", "clauses at most", _forms("dnf", "clauses"), WRITTEN),
        Sweep("opindex-prefix-share", "share of prefixes", _prefixes("share"), WRITTEN),
        Sweep("opindex-prefix-length", "letters of a prefix", _prefixes("length"), WRITTEN),
    )
}  # fmt: skip
