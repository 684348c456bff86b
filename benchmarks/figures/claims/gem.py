"""GEM's figures 4 to 11 (its section III). Its own curves are ours as published: its costs, 0, 10 and 20 caches."""

from __future__ import annotations

from benchmarks.figures.claims.checks import Claim, Least, Ratio, Trend

__all__ = ["GEM"]

PLAIN, TEN, TWENTY = "gem, published ω=0", "gem, published ω=10", "gem, published ω=20"
SYSTEMS = ("tama", "h-tree", "rein", PLAIN, TEN, TWENTY)

GEM = (
    Claim(
        "gem-4",
        "GEM without caches takes far less time than TAMA, H-Tree and REIN; ten caches take off two thirds of it, twenty more than three "
        "quarters.",
        (
            Ratio(PLAIN, "tama", 0.22), Ratio(PLAIN, "h-tree", 0.37), Ratio(PLAIN, "rein", 0.46), Ratio(TEN, PLAIN, 0.34),
            Ratio(TWENTY, PLAIN, 0.22),
        ),
        "Caches serve the first dimension, as printed. What they save is replaying cells of that dimension; at small scale a dimension has "
        "few clauses per cell and the fixed part of a call weighs more.",
    ),
    Claim(
        "gem-5",
        "GEM's standard deviation is the lowest and nearly flat.",
        (
            Least(PLAIN, ("tama", "h-tree", "rein", PLAIN)), Ratio(PLAIN, "tama", 0.12), Ratio(PLAIN, "h-tree", 0.05),
            Ratio(PLAIN, "rein", 0.30),
        ),
        "As DEXIN Fig. 3.",
    ),
    Claim(
        "gem-6",
        "The others grow with the dimensions, GEM is flat or falls slightly.",
        (
            Trend("tama", "grows"), Trend("rein", "grows"), Trend(PLAIN, "flat"), Trend(TWENTY, "flat"), Ratio(PLAIN, "tama", 0.20),
            Ratio(PLAIN, "rein", 0.42),
        ),
        "More dimensions offer a better first one, for everything that plans.",
    ),
    Claim(
        "gem-7",
        "TAMA and GEM grow with the width, GEM least; H-Tree grows exponentially; REIN falls.",
        (
            Trend("tama", "grows"), Trend("h-tree", "grows"), Trend(PLAIN, "grows"), Trend("rein", "falls"), Ratio(PLAIN, "tama", 0.26),
            Ratio(PLAIN, "rein", 0.41),
        ),
        "As DEXIN Fig. 6; wide intervals match much, and the matches are written by all.",
    ),
    Claim(
        "gem-8a",
        "Inserting all: GEM without caches is quickest, caches cost; TAMA and H-Tree take longest.",
        (Ratio(PLAIN, "rein", 0.58), Ratio(PLAIN, "tama", 0.11), Ratio(PLAIN, "h-tree", 0.15), Ratio(TWENTY, PLAIN, 4.6)),
        "In bulk here: caches are computed once for all and not kept right under every insertion, which makes them dear in the paper.",
    ),
    Claim(
        "gem-8b",
        "One insertion by itself (the paper has no such figure; its section III.B states averages, drawn as lines).",
        (),
        "Ours go into a tail, parsing and all merges included; the engine matters only when a tail becomes a block.",
    ),
    Claim(
        "gem-9",
        "Deletion: GEM without caches is quickest, caches cost several times as much.",
        (),
        "A removal is a tombstone here, whatever the engine, caches or not, until its block is merged.",
    ),
    Claim(
        "gem-10",
        "GEM without caches needs least memory; 10 caches double it, 20 quadruple it.",
        (
            Ratio(PLAIN, "rein", 0.68), Ratio(PLAIN, "tama", 0.13), Ratio(PLAIN, "h-tree", 0.22), Ratio(TEN, PLAIN, 2.1),
            Ratio(TWENTY, PLAIN, 3.9),
        ),
        "A cache is a bit set per block here, one bit a clause instead of a list of references, so twenty of them are cheap. A predicate "
        "is stored twice, by rows and by columns, which puts GEM above REIN.",
    ),
    Claim(
        "gem-11",
        "As DEXIN Fig. 16.",
        (
            Ratio("greedy", "optimal", 1.0, last=True), Ratio("optimal, with deciding", "greedy, with deciding", "more", last=True),
            Trend("optimal, with deciding", "grows"),
        ),
        "Formula (3) is DEXIN's sum; plans are carried out by DEXIN's pipeline.",
    ),
)  # fmt: skip
