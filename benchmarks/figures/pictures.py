"""The papers' figures and tables: which sweep each shows, and which measure of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["FORMULA", "FORMULAS", "PICTURES", "TABLES", "Column", "Picture", "TableOf"]


class Picture(NamedTuple):
    """`measure`: a column of the results; with `deviation` a second column as error bars. `log`: which axes are logarithmic."""

    name: str
    title: str
    sweep: str
    measure: str = "mean_ms"
    deviation: str = "std_ms"
    unit: str = "ms an event"
    log: str = "y"
    only: tuple[str, ...] = ()
    """The series to show; none: all."""
    stated: tuple[tuple[str, float], ...] = ()
    """Averages that the paper prints in the same unit, as lines: another machine and another language."""


class Column(NamedTuple):
    """A column of a table. `factor` brings the measure into the table's unit; `of_each`: divided by the subscriptions of the row."""

    series: str
    measure: str
    head: str
    factor: float = 1.0
    of_each: bool = False


class TableOf(NamedTuple):
    """A table of the papers: a row per point, and a column per series and measure, or those of `columns`."""

    name: str
    title: str
    sweep: str
    measures: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences below the table."""


def _time(name: str, title: str, sweep: str, log: str = "y") -> Picture:
    return Picture(name, title, sweep, log=log)


def _other(name: str, title: str, sweep: str, measure: str, unit: str, log: str = "y") -> Picture:
    return Picture(name, title, sweep, measure, "build_std_s" if measure == "build_s" else "", unit, log)


FORMULA = "formula"
FORMULAS: dict[str, Callable[[float], float]] = {
    "SIENA": lambda n: 16 * 20 + 16 * 10 * n + 4 * n,
    "TAMA": lambda n: 8 * 20 * 2**13 + 40 * 10 * n + 4 * n,
    "H-Tree": lambda n: 8 * 6**6 + 4 * 3**6 * n,
    "REIN": lambda n: 8 * 1000 + 16 * 10 * n,
}
"""REIN Table VII with the paper's parameters, in bytes; n: subscriptions."""
MERGED = "µs of the processor, merges included"

PICTURES = {
    picture.name: picture
    for picture in (
        _time("dexin-2", "DEXIN Fig. 2: matching time, subscriptions", "dexin-n"),
        _other("dexin-3", "DEXIN Fig. 3: standard deviation, subscriptions", "dexin-n", "std_ms", "ms"),
        _time("dexin-4", "DEXIN Fig. 4: matching time, attributes", "dexin-m"),
        _other("dexin-5", "DEXIN Fig. 5: standard deviation, attributes", "dexin-m", "std_ms", "ms"),
        _time("dexin-6", "DEXIN Fig. 6: matching time, width of ranges", "dexin-width"),
        _time("dexin-7", "DEXIN Fig. 7: matching time, subscriptions, Zipf", "dexin-zipf-n"),
        _time("dexin-8", "DEXIN Fig. 8: matching time, attributes, Zipf", "dexin-zipf-m"),
        _time("dexin-9", "DEXIN Fig. 9: matching time, width of ranges, Zipf", "dexin-zipf-width"),
        _time("dexin-10", "DEXIN Fig. 10: matching time, cardinality of values", "dexin-cardinality", "xy"),
        _time("dexin-11", "DEXIN Fig. 11: matching time, share of points", "dexin-points"),
        _time("dexin-12", "DEXIN Fig. 12: matching time, matching rate", "dexin-rate", "xy"),
        _other("dexin-13", "DEXIN Fig. 13: subscribing, all at once", "dexin-n", "build_s", "s of the processor"),
        _other("dexin-14", "DEXIN Fig. 14: memory", "dexin-n", "bytes", "bytes"),
        _other("dexin-15", "DEXIN Fig. 15: cost of the greedy and the optimal plan", "dexin-planning", "value",
               "clauses looked at, of all", ""),
        _time("dexin-16", "DEXIN Fig. 16: time of the greedy and the optimal plan", "dexin-planning"),
        _time("dexin-17", "DEXIN Fig. 17: one method alone", "dexin-methods", "xy"),
        _time("gem-4", "GEM Fig. 4: matching time, subscriptions", "gem-n"),
        _other("gem-5", "GEM Fig. 5: standard deviation, subscriptions", "gem-n", "std_ms", "ms"),
        _time("gem-6", "GEM Fig. 6: matching time, dimensions", "gem-m"),
        _time("gem-7", "GEM Fig. 7: matching time, width of intervals", "gem-width"),
        _other("gem-8a", "GEM Fig. 8: inserting, all at once", "gem-n", "build_s", "s of the processor"),
        _other("gem-8b", "GEM Fig. 8: one insertion", "gem-n", "insert_us", MERGED)._replace(
            stated=(("GEM ω=0", 32.1), ("GEM ω=20", 149.0), ("REIN", 55.7), ("H-Tree", 211.8), ("TAMA", 298.1))),
        _other("gem-9", "GEM Fig. 9: one deletion", "gem-n", "delete_us", MERGED)._replace(
            stated=(("GEM ω=0", 16.6), ("GEM ω=20", 125.8), ("REIN", 32.9), ("H-Tree", 163.6), ("TAMA", 228.9))),
        _other("gem-10", "GEM Fig. 10: memory", "gem-n", "bytes", "bytes"),
        _time("gem-11", "GEM Fig. 11: the greedy and the optimal decision", "gem-planning"),
        _time("rein-7", "REIN Fig. 7: matching time, subscriptions", "rein-n"),
        _time("rein-8", "REIN Fig. 8: matching time, constraints", "rein-constraints"),
        _time("rein-9", "REIN Fig. 9: matching time, buckets", "rein-buckets", "x"),
        Picture("rein-10", "REIN Fig. 10: matching time and matches of each event", "rein-n", "each_event", "", "ms", "y"),
        _time("rein-11", "REIN Fig. 11: matching time, width of ranges", "rein-width"),
        _other("rein-12", "REIN Fig. 12: inserting, all at once", "rein-n", "build_s", "s of the processor"),
        _other("rein-13", "REIN Fig. 13: one deletion", "rein-n", "delete_us", MERGED),
        _other("rein-14", "REIN Fig. 14: memory", "rein-n", "bytes", "bytes"),
        _time("opindex-1a", "OpIndex Fig. 1: matching time, dimensions", "opindex-d"),
        _other("opindex-1b", "OpIndex Fig. 1: construction, dimensions", "opindex-d", "build_s", "s of the processor"),
        _time("opindex-7a", "OpIndex Fig. 7: matching time, capacity of a BE-Tree's node", "opindex-capacity", ""),
        _other("opindex-7b", "OpIndex Fig. 7: construction, capacity of a BE-Tree's node", "opindex-capacity", "build_s",
               "s of the processor", ""),
        _other("opindex-8a", "OpIndex Fig. 8(a): memory, subscriptions", "opindex-n", "bytes", "bytes"),
        _other("opindex-8b", "OpIndex Fig. 8(b): memory, values", "opindex-values", "bytes", "bytes", "xy"),
        _other("opindex-9a", "OpIndex Fig. 9(a): insertion, subscriptions", "opindex-n", "build_s", "s of the processor"),
        _other("opindex-9b", "OpIndex Fig. 9(b): insertion, size of subscriptions", "opindex-largest", "build_s",
               "s of the processor"),
        _time("opindex-10a", "OpIndex Fig. 10(a): matching time, subscriptions", "opindex-n"),
        _time("opindex-10b", "OpIndex Fig. 10(b): matching time, size of subscriptions", "opindex-largest"),
        _time("opindex-10c", "OpIndex Fig. 10(c): matching time, size of events", "opindex-event"),
        _time("opindex-10d", "OpIndex Fig. 10(d): matching time, share of equalities", "opindex-equalities"),
        _time("opindex-10e", "OpIndex Fig. 10(e): matching time, values", "opindex-values", "xy"),
        _time("opindex-10f", "OpIndex Fig. 10(f): matching time, Zipf", "opindex-zipf"),
        _other("opindex-11a", "OpIndex Fig. 11(a): insertion, keywords, =", "opindex-twitter-equal", "build_s",
               "s of the processor"),
        _other("opindex-11b", "OpIndex Fig. 11(b): insertion, keywords, intervals", "opindex-twitter-interval", "build_s",
               "s of the processor"),
        _time("opindex-11c", "OpIndex Fig. 11(c): short documents, =", "opindex-twitter-equal"),
        _time("opindex-11d", "OpIndex Fig. 11(d): short documents, intervals", "opindex-twitter-interval"),
        _time("opindex-11e", "OpIndex Fig. 11(e): long documents, =", "opindex-wiki-equal"),
        _time("opindex-11f", "OpIndex Fig. 11(f): long documents, intervals", "opindex-wiki-interval"),
        _other("opindex-12a", "OpIndex Fig. 12(a): insertion, products, =", "opindex-ebay-n-equal", "build_s", "s of the processor"),
        _other("opindex-12b", "OpIndex Fig. 12(b): insertion, products, sets", "opindex-ebay-n-set", "build_s", "s of the processor"),
        _time("opindex-12c", "OpIndex Fig. 12(c): products, =, subscriptions", "opindex-ebay-n-equal"),
        _time("opindex-12d", "OpIndex Fig. 12(d): products, sets, subscriptions", "opindex-ebay-n-set"),
        _time("opindex-12e", "OpIndex Fig. 12(e): products, =, size of subscriptions", "opindex-ebay-largest-equal"),
        _time("opindex-12f", "OpIndex Fig. 12(f): products, sets, size of subscriptions", "opindex-ebay-largest-set"),
        _time("opindex-13a", "OpIndex Fig. 13: conjunctive forms, subscriptions", "opindex-cnf-n"),
        _time("opindex-13b", "OpIndex Fig. 13: disjunctive forms, subscriptions", "opindex-dnf-n"),
        _time("opindex-13c", "OpIndex Fig. 13: conjunctive forms, clauses", "opindex-cnf-clauses"),
        _time("opindex-13d", "OpIndex Fig. 13: disjunctive forms, clauses", "opindex-dnf-clauses"),
        _time("opindex-14a", "OpIndex Fig. 14: share of prefixes", "opindex-prefix-share"),
        _time("opindex-14b", "OpIndex Fig. 14: length of prefixes", "opindex-prefix-length"),
        _time("priority-5a", "Priority Fig. 5(a): determination time, rules, uniform", "priority-size"),
        _time("priority-5b", "Priority Fig. 5(b): determination time, rules, Zipf", "priority-size-zipf"),
        _time("priority-6a", "Priority Fig. 6(a): matching rate, uniform", "priority-rate"),
        _time("priority-6b", "Priority Fig. 6(b): matching rate, Zipf", "priority-rate-zipf"),
    )
}  # fmt: skip

_SI = "SI, filters"
_TIMES = tuple(
    Column(series, measure, f"{series}: {head}", 1e3)
    for series in (_SI, "SI, confirmed", "SF")
    for measure, head in (("mean_ms", "mean"), ("std_ms", "deviation"))
)
_MEMORY = (
    *(Column(FORMULA, name, f"{name}, formula") for name in FORMULAS),
    *(
        Column(series, "bytes", f"{series}, counted", of_each=True)
        for series in ("siena", "tama", "h-tree", "rein", "auto", "dexin", "gem", "opindex", "column scan")
    ),
)

TABLES = {
    table.name: table
    for table in (
        TableOf("rein-table-3", "REIN Table III: extremes and deviation of the matching time (ms)", "rein-n",
                ("max_ms", "min_ms", "std_ms")),
        TableOf("rein-table-4", "REIN Table IV: matches an event, constraints", "rein-constraints", ("matches",)),
        TableOf("rein-table-5", "REIN Table V: matching time (ms), distribution of constraints", "rein-distribution", ("mean_ms",)),
        TableOf("rein-table-6", "REIN Table VI: matches an event, width", "rein-width", ("matches",)),
        TableOf("rein-table-7", "REIN Table VII: memory (bytes a subscription), by the paper's formulas and counted here", "rein-n",
                ("bytes",), _MEMORY, (
                    "Formulas: 16m + 16kn + 4n (SIENA), 8m·2^d + 40kn + 4n (TAMA), 8c^l + 4⌈wc⌉^l·n (H-Tree), 8b + 16kn (REIN), divided by "
                    "the n of the row, with the paper's m = 20, k = 10, b = 1000, w = 0.5, c = 6, l = 6, d = 13.",
                    "The formulas count operands, ids and buckets. Counted: all that the index holds, the original clauses, ids and names "
                    "of subscriptions included.",
                )),
        TableOf("priority-table-2a", "Priority Table 2: time (µs an event), uniform", "priority-size", ("mean_ms", "std_ms"), _TIMES),
        TableOf("priority-table-2b", "Priority Table 2: time (µs an event), Zipf", "priority-size-zipf", ("mean_ms", "std_ms"), _TIMES),
        TableOf("priority-table-3", "Priority Table 3: false positives", "priority-false-positives", ("rate",), (
                Column(_SI, "matched", "matched"), Column(_SI, "unmatched", "unmatched"), Column(_SI, "found", "SI result"),
                Column(_SI, "rate", "measured rate"), Column(_SI, "false_positives", "levels too high"),
                Column("SI, confirmed", "found", "SI, confirmed: result"), Column("SI, confirmed", "rate", "its measured rate"),
            ), (
                "Matched and unmatched: events by the exact levels. SI result: events for which the filters name a level. Measured rate: "
                "unmatched events among them, of all unmatched. Levels too high also counts matched events that got a higher level.",
            )),
    )
}  # fmt: skip
