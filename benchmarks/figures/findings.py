"""What came out, in a few sentences at the top of the document. The sentences are ours; every number in them, and whether they still hold,
comes from the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.figures.claims import PAPERS
from benchmarks.figures.claims.checks import Claim, Least, Ratio, Trend
from benchmarks.figures.pictures import PICTURES
from benchmarks.figures.results_file import ResultsFile

__all__ = ["FINDINGS", "Finding", "findings_lines"]

Files = dict[str, ResultsFile]
PAPER_ENGINES = (
    "dexin, published",
    "gem, published ω=0",
    "rein",
    "siena",
    "tama",
    "h-tree",
    "be-tree",
    "opindex",
    "k-index",
)
DENSE, SPARSE = ("dexin", "gem", "rein"), ("opindex",)
MOST = 0.7


class Finding(NamedTuple):
    """A sentence with its numbers, and whether the numbers bear it out."""

    text: str
    holds: bool


def findings_lines(files: Files) -> list[str]:
    lines = ["## What came out", ""]
    for number, find in enumerate(FINDINGS, 1):
        finding = find(files)
        lines.append(
            f"{number}. {finding.text}" + ("" if finding.holds else " **These results do not bear this out.**")
        )
    return [*lines, ""]


def _last_times(files: Files, papers: tuple[str, ...]) -> Iterator[dict[str, float]]:
    """For each sweep whose matching time is drawn: every series' time at the last point."""
    sweeps = dict.fromkeys(
        picture.sweep
        for picture in PICTURES.values()
        if picture.measure == "mean_ms" and picture.name.split("-")[0] in papers and "planning" not in picture.sweep
    )
    for sweep in sweeps:
        results = files[sweep]
        curves = {series: results.values(series, "mean_ms") for series in results.series()}
        end = max((places[-1] for places, _ in curves.values() if places), default=0.0)
        found = {series: times[-1] for series, (places, times) in curves.items() if places and places[-1] == end}
        if len(found) > 2:
            yield found


def default_is_fastest(files: Files) -> Finding:
    times = [
        {name: took for name, took in found.items() if name != "a call alone"}
        for found in _last_times(files, (*DENSE, *SPARSE))
        if "auto" in found
    ]
    first = sum(min(found, key=found.__getitem__) == "auto" for found in times)
    others = [min(took for name, took in found.items() if name != "auto") / found["auto"] for found in times]
    text = (
        f"**The default engine was the fastest of all in {first} of {len(times)} experiments**, at their last point; the best of the "
        f"others took {np.median(others):.1f} times as long (median). Choose a paper's engine only to compare with it."
    )
    return Finding(text, first >= MOST * len(times))


def scan_beats_old_indexes(files: Files) -> Finding:
    wins, total, by_name = 0, 0, dict[str, list[bool]]()
    for found in _last_times(files, DENSE):
        for name in PAPER_ENGINES:
            if name in found and "column scan" in found:
                won = found["column scan"] < found[name]
                by_name.setdefault(name, []).append(won)
                wins, total = wins + won, total + 1
    shown = ", ".join(f"{name} in {sum(won)} of {len(won)}" for name, won in by_name.items())
    text = (
        f"**On dense data of this size a scan of columns, without any index, beats most of the papers' systems**: in {wins} of {total} "
        f"comparisons ({shown}). It reads memory in order, several values an instruction; counting and chasing lists costs more than "
        f"the work that "
        "they save. The papers compared indexes with each other, and had no such scan."
    )
    return Finding(text, wins > total / 2)


def indexes_win_on_sparse_data(files: Files) -> Finding:
    factors = [
        found["sf"] / found["opindex"] for found in _last_times(files, SPARSE) if {"sf", "opindex"} <= found.keys()
    ]
    text = (
        f"**On sparse data an index pays**: a rule scan took {min(factors):.1f} to {max(factors):.1f} times as long as OpIndex "
        f"(median {np.median(factors):.1f}), because a pivot leaves few subscriptions to look at. This is where the papers' ideas "
        f"have lasted: our default "
        "stores subscriptions under pivots."
    )
    return Finding(text, bool(np.median(factors) > 1.5))


def directions_hold_factors_do_not(files: Files) -> Finding:
    def agreeing(kind: type) -> tuple[int, int]:
        found = [
            check.outcome(files[PICTURES[claim.name].sweep], PICTURES[claim.name].measure).agrees
            for claim in _claims()
            for check in claim.checks
            if isinstance(check, kind)
        ]
        found = [answer for answer in found if answer]
        return found.count("yes"), len(found)

    (trends, of_trends), (ratios, of_ratios), (least, of_least) = map(agreeing, (Trend, Ratio, Least))
    text = (
        f"**How curves grow agrees more often than by how much they differ.** Of the papers' statements about one curve (grows, "
        f"falls, flat) "
        f"{trends} of {of_trends} hold here, of factors between two systems {ratios} of {of_ratios}, of winners {least} of "
        f"{of_least}. A factor measures "
        "two programs on one machine, at a hundred times our size; a direction belongs to the method."
    )
    return Finding(text, trends / of_trends > ratios / of_ratios)


def rein_falls_with_width(files: Files) -> Finding:
    results = files["rein-width"]
    changes = {}
    for name in ("rein", "siena", "tama"):
        _, values = results.values(name, "mean_ms")
        changes[name] = values[-1] / values[0]
    text = (
        "**REIN's own claim holds**: it gets faster the more matches "
        f"({changes['rein']:.2f} times its first time at the widest ranges), where counting gets slower (SIENA {changes['siena']:.1f} "
        f"times, "
        f"TAMA {changes['tama']:.1f} times). Marking what fails is the right idea where most subscriptions match."
    )
    return Finding(text, changes["rein"] < 1 < min(changes["siena"], changes["tama"]))


def building_in_bulk(files: Files) -> Finding:
    results = files["opindex-n"]
    curves = {name: results.values(name, "build_s")[1] for name in ("be-tree", "k-index", "opindex")}
    be_tree, k_index = (float(np.mean(curves[name]) / np.mean(curves["opindex"])) for name in ("be-tree", "k-index"))
    text = (
        f"**The papers' factors of building are about inserting one by one.** Loaded in bulk, BE-Tree takes {be_tree:.1f} times as "
        f"long as OpIndex and k-index "
        f"{k_index:.1f} times, where the paper has 1,000 and 10. Our engines insert into a tail and build blocks, so single "
        f"insertions cost the "
        "same with all of them (the table of updates)."
    )
    return Finding(text, be_tree < 100)


def filters_do_not_depend_on_rules(files: Files) -> Finding:
    results = files["priority-size"]
    sizes, filters = results.values("SI, filters", "mean_ms")
    _, scan = results.values("SF", "mean_ms")
    _, confirmed = results.values("SI, confirmed", "mean_ms")
    text = (
        f"**The priority paper is confirmed**: with {sizes[-1] / sizes[0]:.0f} times as many rules its filters take "
        f"{filters[-1] / filters[0]:.1f} times "
        f"as long and a scan of the rules {scan[-1] / scan[0]:.1f} times; at {sizes[-1]:,.0f} rules the scan takes "
        f"{scan[-1] / filters[-1]:,.0f} times as long as the filters. Making the answer exact costs {confirmed[-1] / filters[-1]:.1f} "
        f"times the "
        "filters alone, so the server confirms by default."
    )
    return Finding(text, filters[-1] / filters[0] < 2 < scan[-1] / scan[0])


def approximate_systems_pay(files: Files) -> Finding:
    shares = []
    for results in files.values():
        rows = [row for row in results.rows if row["series"] == "tama" and row["status"] == "ok"]
        wrong, right = (sum(float(row[part]) for row in rows) for part in ("false_positives", "checked"))
        if wrong + right:
            shares.append(wrong / (wrong + right))
    text = (
        f"**TAMA buys little with its false positives**: {min(shares):.1%} to {max(shares):.1%} of what it finds is wrong (last "
        f"table), and exact systems "
        "are faster. Nothing of ours that delivers is approximate."
    )
    return Finding(text, bool(shares))


FINDINGS: tuple[Callable[[Files], Finding], ...] = (
    default_is_fastest, scan_beats_old_indexes, indexes_win_on_sparse_data, directions_hold_factors_do_not, rein_falls_with_width,
    building_in_bulk, filters_do_not_depend_on_rules, approximate_systems_pay,
)  # fmt: skip


def _claims() -> Iterator[Claim]:
    for claims in PAPERS.values():
        yield from (claim for claim in claims if claim.name in PICTURES)
