"""OpIndex's figures 1 and 7 to 14 (its sections 1 and 7)."""

from __future__ import annotations

from benchmarks.figures.claims.checks import Claim, Least, Ratio, Refused, Trend

__all__ = ["OPINDEX"]

SYSTEMS = ("be-tree", "k-index", "opindex", "opindex, unoptimised")
BULK = "Our BE-Tree is loaded in bulk, which removes most of its building time: the paper's factor is about insertion one by one."
GENERATED = "Generated data with the properties that the paper states. "
SETS = (
    "All of these look a set up by the range from its least to its greatest value (k-index writes out every value of it) and compare the "
    "gaps at the end."
)
FASTEST = Least("opindex", SYSTEMS)
TIMES = (FASTEST, Ratio("k-index", "opindex", 10), Ratio("be-tree", "opindex", "more"))

OPINDEX = (
    Claim(
        "opindex-1a",
        "From 20,000 to 60,000 dimensions OpIndex matches fastest, and the inverted lists of k-index scale better than BE-Tree.",
        (FASTEST, Trend("be-tree", "grows"), Trend("opindex", "falls")),
        "With more dimensions fewer subscriptions share a pivot; at small scale nearly all of the time is the event's look-ups and the "
        "call.",
    ),
    Claim("opindex-1b", "BE-Tree builds slowest by far.", (Ratio("be-tree", "opindex", "more"), Ratio("be-tree", "k-index", "more")), BULK),
    Claim(
        "opindex-7a",
        "From a capacity of 5 to one of 150, BE-Tree matches 15 times slower.",
        (Trend("be-tree", "grows"),),
        "With so few subscriptions most leaves never fill, so the capacity hardly matters.",
    ),
    Claim("opindex-7b", "And is built 15 times faster.", (Trend("be-tree", "falls"),), BULK),
    Claim(
        "opindex-8a",
        "k-index needs seven times OpIndex's memory, BE-Tree twice.",
        (Ratio("k-index", "opindex", 7), Ratio("be-tree", "opindex", 2)),
        "k-index rewrites a range as all of its values. Packed, BE-Tree needs no more than OpIndex.",
    ),
    Claim(
        "opindex-8b",
        "k-index fails from 3,200 values on, BE-Tree needs ten times more, OpIndex does not change.",
        (Refused("k-index"), Trend("be-tree", "grows"), Trend("opindex", "flat")),
        "The codes of an attribute are its operands, so BE-Tree's ranges do not multiply with values that nobody asks for.",
    ),
    Claim("opindex-9a", "OpIndex inserts three orders faster than BE-Tree and one faster than k-index.",
          (Ratio("be-tree", "opindex", 1000), Ratio("k-index", "opindex", 10)), BULK),
    Claim("opindex-9b", "The same for larger subscriptions.", (Ratio("be-tree", "opindex", 1000), Ratio("k-index", "opindex", 10)), BULK),
    Claim("opindex-10a", "OpIndex is fastest, more than ten times faster than k-index.", TIMES,
          "Pivots leave little to count. The compiled rule scan shows what any index saves on sparse data."),
    Claim("opindex-10b", "Larger subscriptions: OpIndex scales best, k-index grows linearly.", (FASTEST, Trend("k-index", "grows")),
          "More tests give a choice of rarer pivots."),
    Claim("opindex-10c", "All grow with the size of events; k-index is worst.",
          (FASTEST, Trend("opindex", "grows"), Trend("be-tree", "grows"), Trend("k-index", "grows")),
          "Work is per attribute that an event carries."),
    Claim("opindex-10d", "More equalities make all faster, k-index and BE-Tree most.",
          (Trend("opindex", "falls"), Trend("be-tree", "falls"), Trend("k-index", "falls")),
          "We do not know why ours do not gain; at this size little depends on what is selected."),
    Claim("opindex-10e", "All are stable in the number of values.", (Trend("opindex", "flat"), Trend("be-tree", "flat")),
          "Half of a range holds whatever the number of values is; a dozen events leave some noise."),
    Claim("opindex-10f", "With more skew OpIndex stays the fastest.", (FASTEST, Ratio("k-index", "opindex", 10, last=True)),
          "Common attributes are in most subscriptions and in most events, so a pivot prunes less."),
    Claim("opindex-11a", "With = alone, k-index builds about as fast as OpIndex, BE-Tree a hundred times slower.",
          (Ratio("k-index", "opindex", 1.0), Ratio("be-tree", "opindex", 100)), BULK),
    Claim("opindex-11b", "With intervals k-index takes longer.", (Ratio("k-index", "opindex", "more"), Ratio("be-tree", "opindex", 100)),
          BULK),
    Claim("opindex-11c", "Short documents: 4 to 9 times faster than BE-Tree, a hundred times faster than k-index.",
          (FASTEST, Ratio("be-tree", "opindex", 6), Ratio("k-index", "opindex", 100)),
          "Five words an event: hardly more than the call, for all."),
    Claim("opindex-11d", "The same with intervals.",
          (FASTEST, Ratio("be-tree", "opindex", 6), Ratio("k-index", "opindex", 100)), "As 11(c)."),
    Claim("opindex-11e", "Long documents: OpIndex is still the fastest.", (FASTEST,),
          "A hundred words, the common ones among them, meet long lists."),
    Claim("opindex-11f", "The same with intervals.", (FASTEST,), "As 11(e)."),
    Claim("opindex-12a", "Products, =: k-index builds about as fast, BE-Tree orders slower.",
          (Ratio("k-index", "opindex", 1.0), Ratio("be-tree", "opindex", 100)), GENERATED + BULK),
    Claim("opindex-12b", "The same with sets of values.", (Ratio("k-index", "opindex", 1.0), Ratio("be-tree", "opindex", 100)),
          "Texts here, whose parsing is in the times of all systems."),
    Claim("opindex-12c", "Products, =: OpIndex is fastest at every size.", (FASTEST,), GENERATED),
    Claim("opindex-12d", "The same with sets of values.", (FASTEST,), SETS),
    Claim("opindex-12e", "Larger subscriptions widen its lead over BE-Tree.", (FASTEST, Ratio("be-tree", "opindex", "more", last=True)),
          "More tests, rarer pivots."),
    Claim("opindex-12f", "With sets BE-Tree clearly degrades with the size of subscriptions.",
          (FASTEST, Trend("be-tree", "grows"), Ratio("be-tree", "opindex", "more", last=True)), SETS),
    Claim("opindex-13a", "Conjunctive forms grow with the subscriptions.", (Trend("opindex", "grows"),),
          "We do not know why the time falls; the sizes are small, and a dozen events leave noise."),
    Claim("opindex-13b", "Disjunctive forms grow, and scale better than conjunctive ones.", (Trend("opindex", "grows"),),
          "A disjunction is several clauses with one owner."),
    Claim("opindex-13c", "With more clauses conjunctive forms scale better than disjunctive ones.", (),
          "A clause of one test is a pivot by itself."),
    Claim("opindex-13d", "Disjunctive forms grow with the clauses.", (Trend("opindex", "grows"),), "Each clause is one more to find."),
    Claim("opindex-14a", "More prefixes are slower, below 0.4 ms.", (Trend("opindex", "grows"),),
          "A prefix is an interval of strings, so it is counted like any interval."),
    Claim("opindex-14b", "Longer prefixes are not slower.", (Trend("opindex", "flat"),), "Longer prefixes match fewer words."),
)  # fmt: skip
