"""Which engine a set of clauses gets: what an event would cost in each, by statistics of the clauses and a few constants of the machine.

Nanoseconds an event, with n clauses, w = n / 64 words of bits, b blocks of 65,536, c columns, and from engines/clause_statistics.py: e
columns an event carries, t tests a clause, pass[i] the part of the clauses that column i does not exclude, p the same in ascending order,
m the part that matches. Names in `code` are engines/machine.py's constants. The numbers before them say how many such steps an engine's
kernel takes; they were fitted to the kernels once and hold wherever those do.

    pivot     e `visit` + n run `entry` + 1.5 n checked (1 + t / 10) `check` + out
              An event looks up its values, passes the runs they lead to, and checks the clauses whose second column is there.
    dense     one event: (5 + 3 b) c `visit` + 16 b c `word` + w live (`visit` / 2 + 2 c `word`) + n m (2.5 + c / 13) `check`
              in a batch: n c `word` / 78 + c `visit` + n m (2.7 + c / 25) `check`
              live = (mean p)^(log2(w) / 2) + 64 m, at most 1: clustering halves the clauses log2(w) times, by lows and by highs.
    rein      n sum(1 - pass) `mark` + 3 w `word` + b (2 e + 0.02 c) `visit` + out
              Every test that fails is one mark.
    dexin     6 c' `visit` + the least over k of: k step + n p[1] … p[k] (1.2 + t / 40) `check` + out, with
              step = w `word` + 2 w `mark` + 2 b `visit`, and nothing to check when k is all columns
    gem       c `count` + the same with step = 3 w `word` + 2 w `mark` + 4 b `visit`, for the clauses whose lead the event carries, and
              1.75 out
              c' of the columns are tested by one clause in 64; only those can be steps.
    opindex   3 n counted `count` + e `visit` + e² min(1, n / c) (`count` + `visit` / 10) + n led `word` / 2 + out
    out       7 n m `entry`: matches taken from bit sets or lists
    Engines whose kernels know one interval a test settle sets and gaps afterwards, at 2 `check` for each match that has any.

Alone, an event pays for the call too; in a batch it pays its part of that.

The choice is the engine with the least geometric mean of both. If nothing is known of events, wide and narrow ones are both looked at, and
the choice is the engine that is, where it is worse, the least behind the best. `dense` and `pivot` are what the library is tuned for; a
paper's engine must be better by MARGIN.

There is no plain scan among them: pivot lists do a part of its work, and below some thousands of clauses nothing is chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.clause_statistics import (
    ClauseSample,
    ClauseStatistics,
    known_events,
    narrow_events,
    wide_events,
)
from ray_pubsub.engines.machine import MachineConstants

__all__ = ["CANDIDATES", "Choice", "CostModel", "Estimate"]

CANDIDATES = ("dense", "dexin", "gem", "opindex", "pivot", "rein")
BATCH = 256
BLOCK = 65_536
WORD = 64
THICK = 64
MOST_DENSE_COLUMNS = 63
"""More do not fit the transposed masks, and bitmaps would take more memory than the clauses."""
OWN = ("dense", "pivot")
MARGIN = 1.3
"""What is not known of events makes this much of a difference easily."""
CALLS = {"dense": 1.2, "dexin": 18.0, "gem": 2.5, "opindex": 1.5, "pivot": 1.0, "rein": 1.8}
"""Time of asking a segment, in the machine's `call`: dexin plans with numpy."""


class Estimate(NamedTuple):
    """Nanoseconds an event."""

    alone: float
    in_batch: float


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The engine, and what was expected of every engine that could take the clauses."""

    engine: str
    estimates: tuple[dict[str, Estimate], ...]
    """For events as they are known, or for wide and for narrow ones."""
    statistics: tuple[ClauseStatistics, ...]
    """The same."""

    @property
    def cost(self) -> float:
        """Of the chosen engine, the geometric mean of all its estimates."""
        return math.exp(
            math.fsum(math.log(time) for each in self.estimates for time in each[self.engine])
            / (2 * len(self.estimates))
        )


class CostModel:
    """The formulas above for one machine."""

    def __init__(self, constants: MachineConstants) -> None:
        self.constants = constants

    def choose(
        self, table: ClauseTable, vocabulary: Vocabulary, frequency: NDArray[np.float64] | None = None
    ) -> Choice:
        """`frequency`: per attribute number, the part of events that carry it, if it is known."""
        sample = ClauseSample(table, vocabulary)
        if frequency is not None:
            expected = [known_events(sample.tested, frequency)]
        else:
            expected = [wide_events(sample.tested), narrow_events(sample.tested)]
        statistics = tuple(sample.statistics(carried) for carried in expected)
        found = [self.estimates(each) for each in statistics]
        regrets = [_regrets(estimates) for estimates in found]
        engine = min(regrets[0], key=lambda name: max(regret[name] for regret in regrets))
        return Choice(engine, tuple(found), statistics)

    def estimates(self, statistics: ClauseStatistics) -> dict[str, Estimate]:
        """Of every engine that can take the clauses."""
        work = {
            "dexin": self._dexin(statistics),
            "gem": self._gem(statistics),
            "opindex": self._opindex(statistics),
            "pivot": self._pivot(statistics),
            "rein": self._rein(statistics),
        }
        settling = 2 * statistics.clauses * statistics.holed * self.constants.check
        found = {
            name: self._with_call(name, nanoseconds + (0.0 if name == "pivot" else settling))
            for name, nanoseconds in work.items()
        }
        if 0 < statistics.columns <= MOST_DENSE_COLUMNS:
            found["dense"] = Estimate(
                self._with_call("dense", settling + self._dense_alone(statistics)).alone,
                self._with_call("dense", settling + self._dense_in_batch(statistics)).in_batch,
            )
        return dict(sorted(found.items()))

    def _with_call(self, name: str, work: float) -> Estimate:
        call = CALLS[name] * self.constants.call
        return Estimate(call + work, call / BATCH + work)

    def _pivot(self, given: ClauseStatistics) -> float:
        machine = self.constants
        check = 1.5 * machine.check * (1 + given.tests / 10)
        met = given.run * machine.entry + given.checked * check
        return given.cells * machine.visit + given.clauses * met + self._out(given)

    def _dense_alone(self, given: ClauseStatistics) -> float:
        machine, words, columns = self.constants, given.clauses / WORD, given.columns
        mean = float(np.exp(np.log(np.maximum(given.passing, 1e-9)).mean()))
        live: float = min(1.0, mean ** (math.log2(max(2.0, words)) / 2) + WORD * given.matched)
        blocks = _blocks(given)
        outer = columns * ((5 + 3 * blocks) * machine.visit + 16 * blocks * machine.word)
        lines = words * live * (0.5 * machine.visit + 2 * columns * machine.word)
        return outer + lines + given.clauses * given.matched * machine.check * (2.5 + columns / 13)

    def _dense_in_batch(self, given: ClauseStatistics) -> float:
        machine = self.constants
        masks = given.clauses * given.columns * machine.word / 78
        found = given.clauses * given.matched * machine.check * (2.7 + given.columns / 25)
        return masks + given.columns * machine.visit + found

    def _rein(self, given: ClauseStatistics) -> float:
        machine = self.constants
        marks = given.clauses * float((1 - given.passing).sum()) * machine.mark
        lists = _blocks(given) * (2 * given.cells + 0.02 * given.columns) * machine.visit
        return marks + 3 * given.clauses / WORD * machine.word + lists + self._out(given)

    def _dexin(self, given: ClauseStatistics) -> float:
        machine, words = self.constants, given.clauses / WORD
        step = words * (machine.word + 2 * machine.mark) + 2 * _blocks(given) * machine.visit
        return self._pipeline(given, given.clauses, step) + self._out(given)

    def _gem(self, given: ClauseStatistics) -> float:
        machine, words = self.constants, given.clauses / WORD
        step = words * (3 * machine.word + 2 * machine.mark) + 4 * _blocks(given) * machine.visit
        runs = given.columns * machine.count
        return runs + self._pipeline(given, given.led * given.clauses, step) + 1.75 * self._out(given)

    def _pipeline(self, given: ClauseStatistics, clauses: float, step: float) -> float:
        """Columns one after the other, the most selective first, for as long as that is cheaper than checking what is left."""
        thick = given.shares * THICK >= 1
        left = clauses * np.concatenate([[1.0], np.cumprod(np.sort(given.passing[thick]))])
        if thick.all():
            left[-1] = 0.0
        check = self.constants.check * (1.2 + given.tests / 40)
        plan = 6 * int(thick.sum()) * self.constants.visit
        return plan + float((np.arange(len(left)) * step + left * check).min())

    def _opindex(self, given: ClauseStatistics) -> float:
        machine = self.constants
        counted = 3 * given.clauses * given.counted * machine.count
        partitions = given.cells * min(1.0, given.clauses / max(1, given.columns))
        signatures = given.cells * (machine.visit + partitions * (machine.count + machine.visit / 10))
        return counted + signatures + given.clauses * given.led * machine.word / 2 + self._out(given)

    def _out(self, given: ClauseStatistics) -> float:
        return 7 * given.clauses * given.matched * self.constants.entry


def _blocks(given: ClauseStatistics) -> int:
    return max(1, -(-given.clauses // BLOCK))


def _regrets(estimates: dict[str, Estimate]) -> dict[str, float]:
    """How many times as long as the best each engine takes, alone and in batches in the geometric mean."""
    weights = {
        name: math.sqrt(estimate.alone * estimate.in_batch) * (1.0 if name in OWN else MARGIN)
        for name, estimate in estimates.items()
    }
    least = min(weights.values())
    return {name: weight / least for name, weight in weights.items()}
