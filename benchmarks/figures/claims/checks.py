"""Checks what a paper says about a curve against a measurement: a ratio, a direction, a winner.

A check never decides by a number that somebody typed: our values come from the results, and the paper's statements stand beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from benchmarks.figures.results_file import ResultsFile

__all__ = ["Below", "Beside", "Check", "Claim", "Least", "Outcome", "Ratio", "Refused", "StatedRate", "Trend"]

GROWS, FALLS = 1.25, 0.8
"""The last value of a curve over its first: beyond these it is said to grow or to fall; between them it is flat."""
NEAR = 2.0
"""A ratio within this factor of the paper's is the same; farther, only its direction may be. Where the paper says that two are equal, the
bounds of a flat curve count instead."""


class Outcome(NamedTuple):
    """One line of the document."""

    what: str
    paper: str
    here: str
    agrees: str
    """yes, in direction, no; or nothing, where there is no measurement."""


class Check(Protocol):
    def outcome(self, results: ResultsFile, measure: str) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Ratio:
    """`first` takes `paper` times as long (or as much) as `second`, on average over the points, or at the last one. Where the paper
    prints no number, `paper` is "less" or "more"."""

    first: str
    second: str
    paper: float | Literal["less", "more"]
    last: bool = False

    def outcome(self, results: ResultsFile, measure: str) -> Outcome:
        what = f"{self.first} ÷ {self.second}" + (", last point" if self.last else "")
        stated = self.paper if isinstance(self.paper, str) else _times(self.paper)
        found = self._here(results, measure)
        if found is None:
            return Outcome(what, stated, "not measured", "")
        here, earlier = found
        return Outcome(what, stated, _times(here) + earlier, self._agrees(here))

    def _agrees(self, here: float) -> str:
        if isinstance(self.paper, str):
            return "yes" if (here < FALLS if self.paper == "less" else here > GROWS) else "no"
        if FALLS <= self.paper <= GROWS:
            return "yes" if FALLS <= here <= GROWS else "no"
        if max(here / self.paper, self.paper / here) <= NEAR and (here < 1) == (self.paper < 1):
            return "yes"
        same_side = here < FALLS if self.paper < 1 else here > GROWS
        return "in direction" if same_side else "no"

    def _here(self, results: ResultsFile, measure: str) -> tuple[float, str] | None:
        """Returns the ratio, and a remark if one of the two was refused at the last point; None if they share no point."""
        curves = [dict(zip(*results.values(series, measure), strict=True)) for series in (self.first, self.second)]
        shared = [x for x in curves[0] if x in curves[1]]
        if not shared:
            return None
        chosen = shared[-1:] if self.last else shared
        ratio = float(np.mean([curves[0][x] for x in chosen]) / np.mean([curves[1][x] for x in chosen]))
        earlier = self.last and shared[-1] < max(max(curve) for curve in curves)
        return ratio, f" (at {shared[-1]:,.10g})" if earlier else ""


@dataclass(frozen=True, slots=True)
class Trend:
    """Whether a curve grows, falls or is flat from its first to its last point."""

    series: str
    paper: str

    def outcome(self, results: ResultsFile, measure: str) -> Outcome:
        _, values = results.values(self.series, measure)
        if len(values) < 2:
            return Outcome(self.series, self.paper, "not measured", "")
        change = values[-1] / values[0]
        found = "grows" if change > GROWS else "falls" if change < FALLS else "flat"
        return Outcome(self.series, self.paper, f"{found} ({_times(change)})", "yes" if found == self.paper else "no")


@dataclass(frozen=True, slots=True)
class Least:
    """`series` has the lowest curve of `among`, at the last point."""

    series: str
    among: tuple[str, ...]

    def outcome(self, results: ResultsFile, measure: str) -> Outcome:
        curves = {name: results.values(name, measure) for name in self.among}
        end = max((places[-1] for places, _ in curves.values() if places), default=0.0)
        last = {name: values[-1] for name, (places, values) in curves.items() if places and places[-1] == end}
        what = "lowest of the paper's systems, last point"
        if self.series not in last or len(last) < 2:
            return Outcome(what, self.series, "not measured", "")
        best = min(last, key=last.__getitem__)
        here = best
        if best != self.series:
            here += f" ({self.series}: {_times(last[self.series] / last[best])})"
        return Outcome(what, self.series, here, "yes" if best == self.series else "no")


@dataclass(frozen=True, slots=True)
class Refused:
    """The paper's system ran out of memory; here it is refused beyond a bound, at some point of the sweep."""

    series: str

    def outcome(self, results: ResultsFile, measure: str) -> Outcome:
        refused = [row["x"] for row in results.rows if row["series"] == self.series and row["status"] == "too large"]
        here = f"refused at {', '.join(refused)}" if refused else "never refused"
        return Outcome(f"{self.series}, largest points", "out of memory", here, "yes" if refused else "no")


@dataclass(frozen=True, slots=True)
class Below:
    """A measure of `series` stays below a bound at every point; `paper`: how the paper says so."""

    series: str
    measure: str
    bound: float
    paper: str

    def outcome(self, results: ResultsFile, measure: str) -> Outcome:
        _, values = results.values(self.series, self.measure)
        what = f"{self.series}: {self.measure} at most"
        if not values:
            return Outcome(what, self.paper, "not measured", "")
        return Outcome(what, self.paper, f"{max(values):.2g}", "yes" if max(values) < self.bound else "no")


@dataclass(frozen=True, slots=True)
class Beside:
    """`series` takes `paper` times as long as in another sweep, on average over the points."""

    series: str
    sweep: str
    paper: float

    def outcome(self, results: ResultsFile, measure: str) -> Outcome:
        other = ResultsFile(results.path.with_name(f"{self.sweep}.csv"), results.notes["scale"])
        mine, theirs = (file.values(self.series, measure)[1] for file in (results, other))
        what = f"{self.series} ÷ itself in {self.sweep}"
        if not mine or len(mine) != len(theirs):
            return Outcome(what, _times(self.paper), "not measured", "")
        here = float(np.mean(mine) / np.mean(theirs))
        same = FALLS <= here / self.paper <= GROWS
        direction = self.paper > 1 and here > 1.1
        return Outcome(what, _times(self.paper), _times(here), "yes" if same else "in direction" if direction else "no")


@dataclass(frozen=True, slots=True)
class StatedRate:
    """The rate of false positives that was measured is at most the stated one, x, and no match is missed."""

    series: str

    def outcome(self, results: ResultsFile, measure: str) -> Outcome:
        stated, rates = results.values(self.series, "rate")
        matched, found = (results.values(self.series, name)[1] for name in ("matched", "found"))
        what = f"{self.series}: measured rate ÷ stated rate, highest"
        if not rates:
            return Outcome(what, "near 1, no false negative", "not measured", "")
        highest = max(rate / limit for rate, limit in zip(rates, stated, strict=True))
        missed = any(here < right for here, right in zip(found, matched, strict=True))
        holds = highest <= GROWS and not missed
        return Outcome(what, "near 1, no false negative", f"{highest:.2f}", "yes" if holds else "no")


class Claim(NamedTuple):
    """What one figure or table of a paper says, in our words; `why`: how we explain the outcome; nobody measured it."""

    name: str
    text: str
    checks: tuple[Check, ...]
    why: str = ""


def _times(value: float) -> str:
    return f"{value:.2f} ×" if value < 10 else f"{value:,.0f} ×"  # noqa: RUF001
