"""What an event costs in each engine: the formulas by which `auto` compares them.

Nanoseconds an event, with n clauses, w = n / 64 words of bits, b blocks of 65,536, c columns, and from
engines/selection/clause_statistics.py: e columns an event carries, t tests a clause, pass[i] the share of the clauses that column i does
not exclude, p the same in ascending order, m the share that matches, s the share that does by the hulls of its sets, g columns with sets of
several intervals that an event carries, h the share of the clauses with a gap that holds its value. Names in `code` are
constants of engines/selection/machine.py. The numbers before them say how many such steps an engine's kernel takes; they were fitted to
the kernels once and hold on every machine.

    pivot     e `visit` + met + 7 n m `entry`, met = 5 n run `entry` + 3 n checked (1 + t / 5) `check`; an event alone pays 1.2 met more
              An event looks up its values, passes the runs they lead to, and compares the clauses whose other tests may hold.
              In a batch, if that is less: n (4 + 0.6 r) `check` / 512 + c `visit` + 12 n m `entry`, with r numbers a row
              (kernels/pivot/batch_masks.py); 3 r if the lines of the events' codes do not fit the cache.
              Or, alone and in a batch: c' (`visit` + 1.1 w `word`) + 4 flips `mark` + n o 4 `entry` + 2 n m `entry`, with
              flips = c' n / 256, or c' n (r - 1 - 2 t) / 4,096 if that is more, and the share o of tests on other than c' columns
              (kernels/pivot/clause_states.py). An event alone pays 1.5 of that,
              and 0.4 `call`, because it is first seen that the lists would take longer.
    dense     one event: (2 + (3 + 3 b) min(1, n / 32,768)) c `visit` + 16 b c `word` + lines (`visit` / 2 + 4 c `word`)
              + n s (2.5 + c / 13) `check`
              in a batch: n c `word` / 78 + c `visit` + n s (4.5 + c / 25) `check`
              lines = w / 8 (1 - (1 - live)^8), the lines of eight words of which one is live
              live = (mean p)^(log2(w) / 2) + 64 s, at most 1: clustering halves the clauses log2(w) times, by lows and by highs.
    rein      1.5 n sum(1 - pass) `mark` + 3 w `word` + b (2 e + 0.02 c) `visit` + gaps + out
              Every test that fails is a mark; lists are in cold memory.
    dexin     6 c' `visit` + gaps + the least over k of: k step + n (1 - h) p[1] … p[k] (1.2 + t / 40) `check` + out, with
              step = w `word` + 2 w `mark` + 2 b `visit`, and nothing to check when k is all columns
    gem       c `count` + the same with step = 3 w `word` + 2 w `mark` + 4 b `visit`, for the clauses whose lead the event carries, and
              1.75 out
    gaps      g (3 w `word` + 16 w `mark` + 16 b `visit`): a search among the boundaries of a column, the nearest cached bit set, the
              flips up to the code, and one pass; the mean of sets of 12 and 25 values and of `not in`, in single events and batches
              c' of the columns are tested by one clause in 64; only those can be steps.
    opindex   3 n counted `count` + e `visit` + e² min(1, n / c) (`count` + `visit` / 10) + n led `word` / 2 + out
    out       7 n m `entry`, opindex 7 n s `entry`: matches taken from bit sets or lists

dense and opindex prune by hulls, and compare the gaps of each clause of s that has any afterwards: (2 + r / 3) `check` each, with r numbers
a row, because the values of large sets are far from each other in memory. A single event pays for the call of the segment too; in a
batch it pays its share of that.
"""

from __future__ import annotations

import math

import numpy as np

from ray_pubsub.engines.engine_entry import Estimate
from ray_pubsub.engines.pivot.clause_states import COMMON, MOST_COVERED
from ray_pubsub.engines.pivot.match_ways import MOST_COMPARED
from ray_pubsub.engines.selection.clause_statistics import ClauseStatistics
from ray_pubsub.engines.selection.machine import MachineConstants

__all__ = ["MOST_DENSE_COLUMNS", "crowded", "dense", "dexin", "gem", "opindex", "pivot", "rein"]

BATCH = 256
MASKED = 512
"""The events of a batch that share a pass over all rows."""
BLOCK = 65_536
WORD, LINE = 64, 8
CACHED_LINES = 8192
"""Lines of 1,024 bits that fit the second cache."""
CROWDED = 3.0
"""States of clauses are made with a block if an event would take this many times as long without. They take as many bytes again."""
COLD = 1.2
"""By how much more an event that comes alone pays for what it meets: nothing is asked for ahead, and the caches hold other things."""
WARM = 32_768
"""What belongs to fewer clauses is mostly in a cache."""
MOST_DENSE_COLUMNS = 63
"""More do not fit the transposed masks, and bitmaps would take more memory than the clauses."""


def pivot(given: ClauseStatistics, machine: MachineConstants) -> Estimate:
    alone, ahead = _lists(given, machine)
    number = 3.0 if given.lines > CACHED_LINES else 0.6
    masks = given.clauses * (4 + number * given.numbers) * machine.check / MASKED
    matches = given.clauses * given.matched * machine.entry
    states = _states(given, machine)
    in_batch = min(ahead, masks + given.columns * machine.visit + 12 * matches, states)
    return _with_call(1.2, machine, min(alone, 1.5 * states + 0.4 * machine.call), in_batch)


def crowded(given: ClauseStatistics, machine: MachineConstants) -> bool:
    """Returns whether an event that comes alone takes much longer by pivot lists than by states of clauses."""
    return _lists(given, machine)[0] > CROWDED * 1.5 * _states(given, machine)


def _lists(given: ClauseStatistics, machine: MachineConstants) -> tuple[float, float]:
    """Returns the cost of an event by pivot lists, alone and in a batch."""
    check = 3 * machine.check * (1 + given.tests / 5)
    met = given.clauses * (5 * given.run * machine.entry + given.checked * check)
    ahead = given.cells * machine.visit + met + 7 * given.clauses * given.matched * machine.entry
    return ahead + COLD * met, ahead


def _states(given: ClauseStatistics, machine: MachineConstants) -> float:
    """Returns the cost of an event by states of clauses; endless if they would not be made."""
    covered = given.shares[given.shares * COMMON >= 1]
    others = 1 - float(np.sort(covered)[-MOST_COVERED:].sum()) / max(1e-9, float(given.shares.sum()))
    if not len(covered) or others > MOST_COMPARED:
        return math.inf
    columns = min(len(covered), MOST_COVERED)
    changes = max(0.0, given.numbers - 1 - 2 * given.tests)
    flips = columns * given.clauses * max(1 / 256, changes / 4096)
    states = columns * (machine.visit + 1.1 * given.clauses / WORD * machine.word) + 4 * flips * machine.mark
    return states + given.clauses * (4 * others + 2 * given.matched) * machine.entry


def dense(given: ClauseStatistics, machine: MachineConstants) -> Estimate | None:
    words, columns = given.clauses / WORD, given.columns
    if not 0 < columns <= MOST_DENSE_COLUMNS:
        return None
    mean = float(np.exp(np.log(np.maximum(given.passing, 1e-9)).mean()))
    live: float = min(1.0, mean ** (math.log2(max(2.0, words)) / 2) + WORD * given.survivors)
    blocks = _blocks(given)
    visits = 2 + 3 * (1 + blocks) * min(1.0, given.clauses / WARM)
    outer = columns * (visits * machine.visit + 16 * blocks * machine.word)
    lines = words / LINE * (1 - (1 - live) ** LINE) * (0.5 * machine.visit + 4 * columns * machine.word)
    matches = given.clauses * given.survivors * machine.check
    alone = outer + lines + matches * (2.5 + columns / 13)
    masks = given.clauses * columns * machine.word / 78
    in_batch = masks + columns * machine.visit + matches * (4.5 + columns / 25)
    gaps = _gaps(given, machine)
    return _with_call(3.7 if given.holed else 1.0, machine, alone + gaps, in_batch + gaps)


def rein(given: ClauseStatistics, machine: MachineConstants) -> Estimate:
    marks = 1.5 * given.clauses * float((1 - given.passing).sum()) * machine.mark
    lists = _blocks(given) * (2 * given.cells + 0.02 * given.columns) * machine.visit
    work = marks + 3 * given.clauses / WORD * machine.word + lists + _out(given.matched, given, machine)
    return _with_call(8.0, machine, work + _toggled(given, machine))


def dexin(given: ClauseStatistics, machine: MachineConstants) -> Estimate:
    step = given.clauses / WORD * (machine.word + 2 * machine.mark) + 2 * _blocks(given) * machine.visit
    work = _pipeline(given, machine, given.clauses, step) + _out(given.matched, given, machine)
    return _with_call(18.0, machine, work + _toggled(given, machine))  # it plans with numpy


def gem(given: ClauseStatistics, machine: MachineConstants) -> Estimate:
    step = given.clauses / WORD * (3 * machine.word + 2 * machine.mark) + 4 * _blocks(given) * machine.visit
    steps = _pipeline(given, machine, given.led * given.clauses, step)
    work = given.columns * machine.count + steps + 1.75 * _out(given.matched, given, machine)
    return _with_call(9.0, machine, work + _toggled(given, machine))


def opindex(given: ClauseStatistics, machine: MachineConstants) -> Estimate:
    counted = 3 * given.clauses * given.counted * machine.count
    partitions = given.cells * min(1.0, given.clauses / max(1, given.columns))
    signatures = given.cells * (machine.visit + partitions * (machine.count + machine.visit / 10))
    work = counted + signatures + given.clauses * given.led * machine.word / 2 + _out(given.survivors, given, machine)
    return _with_call(10.0, machine, work + _gaps(given, machine))


def _pipeline(given: ClauseStatistics, machine: MachineConstants, clauses: float, step: float) -> float:
    """Returns the cost of columns one after the other, the most selective first, while that is cheaper than checking the clauses that are
    left."""
    left = clauses * (1 - given.between) * given.left
    steps = len(left) - 1
    if steps == len(given.shares):
        left[-1] = 0.0
    check = machine.check * (1.2 + given.tests / 40)
    plan = 6 * steps * machine.visit
    return plan + float((np.arange(len(left)) * step + left * check).min())


def _out(share: float, given: ClauseStatistics, machine: MachineConstants) -> float:
    return 7 * given.clauses * share * machine.entry


def _gaps(given: ClauseStatistics, machine: MachineConstants) -> float:
    """Returns the cost of comparing the gaps of the clauses that hulls let pass."""
    return (2 + given.numbers / 3) * given.clauses * given.holed * machine.check


def _toggled(given: ClauseStatistics, machine: MachineConstants) -> float:
    """Returns the cost of excluding clauses by the boundaries of their gaps."""
    column = given.clauses / WORD * (3 * machine.word + 16 * machine.mark) + 16 * _blocks(given) * machine.visit
    return given.gapped * column


def _with_call(calls: float, machine: MachineConstants, alone: float, in_batch: float | None = None) -> Estimate:
    """`calls`: the time of calling a segment, in units of the machine's `call`."""
    call = calls * machine.call
    return Estimate(call + alone, call / BATCH + (alone if in_batch is None else in_batch))


def _blocks(given: ClauseStatistics) -> int:
    return max(1, -(-given.clauses // BLOCK))
