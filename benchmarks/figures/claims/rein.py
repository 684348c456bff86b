"""REIN's figures 7 to 14 and tables III to VII (its section V)."""

from __future__ import annotations

from benchmarks.figures.claims.checks import Claim, Least, Ratio, Refused, Trend

__all__ = ["REIN"]

SYSTEMS = ("siena", "tama", "h-tree", "rein")

REIN = (
    Claim(
        "rein-7",
        "REIN is least affected by the number of subscriptions; at two million it is 14, 9 and 6 times faster than SIENA, TAMA and H-Tree.",
        (
            Least("rein", SYSTEMS), Ratio("siena", "rein", 14, last=True), Ratio("tama", "rein", 9, last=True),
            Ratio("h-tree", "rein", 6, last=True),
        ),
        "REIN marks 16-bit numbers in a bit set of 8 KB. Our TAMA counts in packed bytes and our H-Tree looks at short runs of memory, so "
        "at this size they are nearer; the papers' factors are about cache misses at a hundred times the size.",
    ),
    Claim(
        "rein-table-3",
        "Of the extremes and the deviation at the largest size, H-Tree's are the widest and REIN's the narrowest.",
        (),
        "See the deviation in the table; events with many matches are slow for H-Tree, which looks at them one by one.",
    ),
    Claim(
        "rein-8",
        "All grow with the constraints, H-Tree falls first; at 23 constraints REIN is 16, 10 and 4 times faster.",
        (
            Trend("rein", "grows"), Trend("siena", "grows"), Trend("tama", "grows"), Ratio("siena", "rein", 16, last=True),
            Ratio("tama", "rein", 10, last=True), Ratio("h-tree", "rein", 4, last=True),
        ),
        "As Fig. 7.",
    ),
    Claim("rein-table-4", "Matches fall by about four with every two constraints more.", (),
          "Chance alone decides: the same numbers, scaled."),
    Claim(
        "rein-9",
        "Matching is fastest with 1,000 buckets at two million subscriptions, slower with fewer and with more.",
        (),
        "Buckets are runs of one array: walking over their edges costs nothing, so more buckets do little harm.",
    ),
    Claim(
        "rein-10",
        "The more an event matches, the faster REIN and the slower the others.",
        (),
        "See the cloud of points. Writing the matches takes REIN's gain back.",
    ),
    Claim(
        "rein-11",
        "REIN falls with the width, SIENA and TAMA grow; H-Tree is best up to 0.3 and runs out of memory from 0.7 on.",
        (Trend("siena", "grows"), Trend("tama", "grows"), Trend("rein", "falls"), Refused("h-tree")),
        "At small scale H-Tree's copies still fit, up to its bound.",
    ),
    Claim("rein-table-5", "Uniform, normal and Pareto constraints take the same, at every size.", (), "Codes are ranks."),
    Claim("rein-table-6", "Matches grow steeply with the width.", (), "Chance alone decides: the same numbers, scaled."),
    Claim(
        "rein-12",
        "Inserting takes REIN 4 % longer than SIENA, TAMA 18 and H-Tree 8 times as long.",
        (Ratio("rein", "siena", 1.04, last=True), Ratio("tama", "siena", 18, last=True), Ratio("h-tree", "siena", 8, last=True)),
        "In bulk: SIENA's lists are sorted once, REIN's put into buckets once.",
    ),
    Claim(
        "rein-13",
        "Deleting a subscription is cheapest with REIN, and dear with SIENA, whose lists are long.",
        (),
        "A removal is a tombstone here, whatever the engine; the references have no removal of their own.",
    ),
    Claim(
        "rein-14",
        "REIN needs least memory.",
        (Least("rein", SYSTEMS), Ratio("tama", "rein", 2.5), Ratio("h-tree", "rein", 18)),
        "The paper computes bytes from formulas (Table VII: 160 bytes a subscription for REIN, 400 for TAMA, 2,916 for H-Tree at its "
        "settings); here they are counted.",
    ),
    Claim("rein-table-7", "Memory by formula; here counted.", (), "As Fig. 14."),
)  # fmt: skip
