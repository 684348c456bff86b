"""Explains answers: which rules and signatures they follow from, and how often the filters give too high a level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.select_events import select_events
from ray_pubsub.priority.cache import NO_LINES
from ray_pubsub.priority.confirmation import matched
from ray_pubsub.priority.levels import Levels
from ray_pubsub.priority.report import Measurement, PriorityExplanation, SignatureAnswer
from ray_pubsub.priority.rule_maintenance import RuleKeeper

__all__ = ["exact_levels", "explain_event", "measure_events"]


def exact_levels(keeper: RuleKeeper, batch: EventBatch) -> NDArray[np.uint8]:
    """Returns the level of each event, by matching alone."""
    snapshot, indexes = keeper.snapshot, keeper.all_indexes()
    levels = np.zeros(batch.size, dtype=np.uint8)
    if len(indexes.exact):
        rows, numbers = matched(indexes.exact, select_events(batch, np.arange(batch.size)), snapshot)
        np.maximum.at(levels, rows, snapshot.level_of[numbers])
    for level in range(keeper.levels - 1, 0, -1):
        left = np.flatnonzero(levels < level)
        if len(left) and len(indexes.of_level(level)):
            rows, _ = matched(indexes.of_level(level), select_events(batch, left), snapshot)
            levels[left[rows]] = level
    return levels


def measure_events(keeper: RuleKeeper, batch: EventBatch) -> Measurement:
    """Returns the filters' answers beside the exact ones."""
    exact = exact_levels(keeper, batch)
    reported = np.zeros(batch.size, dtype=np.uint8)
    covered = np.zeros(batch.size, dtype=bool)
    snapshot = keeper.snapshot
    if keeper.exact:
        rows, numbers = matched(keeper.indexes.exact, select_events(batch, np.arange(batch.size)), snapshot)
        np.maximum.at(reported, rows, snapshot.level_of[numbers])
    determination = snapshot.determination
    if determination.has_instances:
        bins = determination.discretization.bins(batch)
        masks, _ = determination.masks(bins, True, snapshot.version, NO_LINES)
        said = np.frexp(masks.astype(np.float64))[1].astype(np.uint8)
        reported = np.maximum(reported, said)
        for (number, level), counts in keeper.instances.cover.counts.items():
            rows = np.flatnonzero((reported == level) & (exact < level))
            cells = determination.cells(bins[rows], number)
            covered[rows] |= (cells >= 0) & (counts[np.maximum(cells, 0)] > 0)
    wrong = reported > exact
    return Measurement(
        events=batch.size,
        matched=int((exact > 0).sum()),
        reported=int((reported > 0).sum()),
        by_filter=int((wrong & ~covered).sum()),
        by_discretization=int((wrong & covered).sum()),
        missed=int((reported < exact).sum()),
    )


def explain_event(keeper: RuleKeeper, levels: Levels, batch: EventBatch, level: int) -> PriorityExplanation:
    """Explains why one event has this level."""
    snapshot, indexes = keeper.snapshot, keeper.all_indexes()
    exact = int(exact_levels(keeper, batch)[0])
    numbers: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    if exact:
        parts = [matched(index, batch, snapshot)[1] for index in (indexes.of_level(exact), indexes.exact)]
        numbers = np.unique(np.concatenate(parts))
        numbers = numbers[snapshot.level_of[numbers] == exact]
    signatures = _signatures(keeper, levels, batch)
    book = keeper.book
    chosen = numbers.tolist()
    return PriorityExplanation(
        level=levels.names[level],
        exact=levels.names[exact],
        rules=tuple(book.ids[number] for number in chosen),
        expressions=tuple(book.source(number).text_at(number) for number in chosen),
        signatures=signatures,
        reason=_reason(keeper, levels, level, exact, chosen, signatures),
    )


def _reason(
    keeper: RuleKeeper,
    levels: Levels,
    level: int,
    exact: int,
    numbers: list[int],
    signatures: tuple[SignatureAnswer, ...],
) -> str:
    name = levels.names[level]
    said = [other for other in levels.names[level + 1 :] if any(other in each.levels for each in signatures)]
    beyond = f"; the filters said {', '.join(said)} too, and no rule confirmed it" if said else ""
    if level > exact:
        covered = any(name in each.covered for each in signatures)
        source = "the bins are wider than the rule" if covered else "other signatures share its bits in the filter"
        return f"no rule of this level matches, a false positive: {source}; exactly, it is {levels.names[exact]}"
    if not numbers:
        return f"no rule matches{beyond}"
    count = f"{len(numbers):,} rules match" if len(numbers) > 1 else "a rule matches"
    reasons = sorted({keeper.exact[number] for number in numbers if number in keeper.exact})
    always = f" (matched exactly for every event: {'; '.join(reasons)})" if reasons else ""
    return f"{count}{always}{beyond}"


def _signatures(keeper: RuleKeeper, levels: Levels, batch: EventBatch) -> tuple[SignatureAnswer, ...]:
    """Returns the event's signatures that a filter has."""
    determination, instances = keeper.snapshot.determination, keeper.instances
    if not determination.has_instances:
        return ()
    bins = determination.discretization.bins(batch)
    found = []
    for number, vector in enumerate(determination.vectors):
        cells = determination.cells(bins, number)
        if cells[0] < 0:
            continue
        present = [level for vector_, level in sorted(instances.cover.counts) if vector_ == number]
        said = [level for level in present if determination.filters.contains(level, cells, vector.salt)[0]]
        if said:
            covered = [level for level in present if instances.cover.counts[number, level][cells[0]]]
            columns = determination.discretization.columns
            described = [
                (name, columns[column].describe(*vector.bins_like(place, int(bins[0, column]))))
                for place, (name, column) in enumerate(zip(vector.names, vector.columns, strict=True))
            ]
            found.append(
                SignatureAnswer(
                    vector.discretizer_id,
                    int(cells[0]),
                    tuple(described),
                    tuple(levels.names[level] for level in said),
                    tuple(levels.names[level] for level in covered),
                )
            )
    return tuple(found)
