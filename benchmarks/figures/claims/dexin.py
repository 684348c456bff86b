"""DEXIN's figures 2 to 17 (sections 4.1 to 4.4). Its own curve is ours as published: its formulas, no caches."""

from __future__ import annotations

from benchmarks.figures.claims.checks import Claim, Least, Ratio, Trend

__all__ = ["DEXIN"]

OURS = "dexin, published"
SYSTEMS = ("tama", "h-tree", "be-tree", "opindex", "rein", OURS)
RATIOS = tuple(
    Ratio(OURS, other, paper)
    for other, paper in (("tama", 0.20), ("h-tree", 0.64), ("be-tree", 0.68), ("opindex", 0.26), ("rein", 0.38))
)

DEXIN = (
    Claim(
        "dexin-2",
        "All systems take longer with more subscriptions; DEXIN is the fastest everywhere and the flattest.",
        (Least(OURS, SYSTEMS), *RATIOS),
        "The published costs remove by one attribute and check what is left, clause by clause. At this size a column scan does the same "
        "without an index, from memory that lies in order, and REIN's bit set lies in the first-level cache. A call of `dexin` also plans, "
        "in Python and with arrays meant for batches, which is most of its time for one event at small scale. Counting systems (OpIndex, "
        "SIENA) are slow on dense data, as in the paper.",
    ),
    Claim(
        "dexin-3",
        "DEXIN has the lowest standard deviation, nearly flat in N.",
        (Least(OURS, SYSTEMS), Trend(OURS, "flat")),
        "The deviation follows the work that depends on the event, which for DEXIN is what the first attribute leaves. Marking and "
        "scanning do the same work for every event.",
    ),
    Claim(
        "dexin-4",
        "TAMA, BE-Tree, OpIndex and REIN grow with the attributes, H-Tree falls and then rises, DEXIN is nearly flat from 6 on.",
        (Trend("tama", "grows"), Trend("be-tree", "grows"), Trend("opindex", "grows"), Trend("rein", "grows"), Trend(OURS, "flat")),
        "Systems that count or mark touch every attribute; those that keep survivors stop early. With two attributes many events match "
        "much, and writing the matches is then the larger part for systems that stop early.",
    ),
    Claim(
        "dexin-5",
        "DEXIN has the lowest deviation and falls slowly with the attributes; the others grow.",
        (Least(OURS, SYSTEMS), Trend("tama", "grows"), Trend("rein", "grows")),
        "As Fig. 3.",
    ),
    Claim(
        "dexin-6",
        "TAMA grows quickly with the width, H-Tree is best up to 0.3 and then grows exponentially, REIN gets faster, BE-Tree and OpIndex "
        "grow slowly, DEXIN hardly changes.",
        (
            Trend("tama", "grows"), Trend("h-tree", "grows"), Trend("be-tree", "grows"), Trend("opindex", "grows"), Trend("rein", "falls"),
            Trend(OURS, "flat"),
        ),
        "H-Tree's copies multiply with the cells that a range touches. At 0.9 most attributes hold for most subscriptions: nothing is left "
        "to exclude, and many matches are written by every system, REIN among them, whose marking becomes cheaper meanwhile.",
    ),
    Claim(
        "dexin-7",
        "Under Zipf's law all are somewhat slower than with uniform values; DEXIN stays the fastest.",
        (Least(OURS, SYSTEMS), Trend("tama", "grows"), Trend("rein", "grows")),
        "Codes are ranks of operands, so slots and buckets hold equal numbers however skewed the values are; what skew changes here is the "
        "matching rate.",
    ),
    Claim(
        "dexin-8",
        "As Fig. 4, under Zipf's law.",
        (Least(OURS, SYSTEMS), Trend("tama", "grows"), Trend("rein", "grows")),
        "As Fig. 4.",
    ),
    Claim(
        "dexin-9",
        "As Fig. 6, under Zipf's law.",
        (Trend("tama", "grows"), Trend("h-tree", "grows"), Trend("rein", "falls")),
        "As Fig. 6.",
    ),
    Claim(
        "dexin-10",
        "Nearly flat in the cardinality of values, for all.",
        tuple(Trend(name, "flat") for name in SYSTEMS),
        "An index of codes has as many codes as there are distinct operands, so the cardinality "
        "should only decide how often two are equal; why BE-Tree and REIN gain is open.",
    ),
    Claim(
        "dexin-11",
        "More points make TAMA, H-Tree, BE-Tree and OpIndex faster; REIN and DEXIN stay, and DEXIN is best below 60 %.",
        (
            Trend("tama", "falls"), Trend("h-tree", "falls"), Trend("be-tree", "falls"), Trend("opindex", "falls"), Trend("rein", "flat"),
            Trend(OURS, "flat"),
        ),
        "A point selects more than a range, and what starts with the most selective attribute gains.",
    ),
    Claim(
        "dexin-12",
        "With the matching rate TAMA, H-Tree, BE-Tree and OpIndex grow, REIN falls, DEXIN is stable.",
        (
            Trend("tama", "grows"), Trend("h-tree", "grows"), Trend("be-tree", "grows"), Trend("opindex", "grows"), Trend("rein", "falls"),
            Trend(OURS, "flat"),
        ),
        "Every match is written into the result here, which the papers' times may or may not include; it is work for everyone.",
    ),
    Claim(
        "dexin-13",
        "Subscribing all takes DEXIN a little longer than REIN and less than the others.",
        (
            Least("rein", SYSTEMS), Ratio(OURS, "tama", "less"), Ratio(OURS, "h-tree", "less"), Ratio(OURS, "be-tree", "less"),
            Ratio(OURS, "opindex", "less"),
        ),
        "Loaded in bulk here, sorted once, not one by one.",
    ),
    Claim(
        "dexin-14",
        "DEXIN needs little more memory than REIN, which needs least.",
        (Least("rein", SYSTEMS), Ratio(OURS, "tama", "less"), Ratio(OURS, "h-tree", "less"), Ratio(OURS, "be-tree", "less")),
        "Packed arrays instead of trees and lists of objects: BE-Tree, which stores a subscription once, is small then.",
    ),
    Claim(
        "dexin-15",
        "The cost of the greedy plan meets the optimal one from 10 attributes on.",
        (Ratio("greedy", "optimal", 1.0, last=True),),
        "The same formula (6), with the rates that the index counts. Constraints are uniform or Zipf, by attribute, as in section 4.3.",
    ),
    Claim(
        "dexin-16",
        "Carried out, both plans take the same from 10 attributes on; with the time to decide, the optimal one grows exponentially.",
        (
            Ratio("greedy", "optimal", 1.0, last=True), Ratio("optimal, with deciding", "greedy, with deciding", "more", last=True),
            Trend("optimal, with deciding", "grows"),
        ),
        "Both plans go through the same kernel, and their matches are compared.",
    ),
    Claim(
        "dexin-17",
        "One method alone is good at one end of the matching rates: exclusive alone falls with the rate, inclusive alone grows, both "
        "together are stable.",
        (
            Trend("dexin, exclusive only", "falls"), Trend("dexin, inclusive only", "grows"), Trend(OURS, "flat"),
            Least(OURS, (OURS, "dexin, exclusive only", "dexin, inclusive only")),
        ),
        "Writing the matches is work at the right end, and a call's fixed part hides much of the difference at the small scale. At the "
        "paper's size exclusive alone wins where much matches: its lists and bits are read in the order of memory. What a plan leaves "
        "to the inclusive method is looked at clause by clause, a cache miss each; the published costs count a removal and a look alike.",
    ),
)  # fmt: skip
