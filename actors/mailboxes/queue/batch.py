"""The arguments of a put, checked before anything is changed; those of a batch as columns of equal length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from math import isfinite
from operator import add, index
from typing import Any, NamedTuple

from actors.mailboxes.queue.levels import seconds
from ray_pubsub.errors import SettingError

__all__ = ["Batch", "batch_of_runs", "checked_columns", "entry_level", "entry_size", "entry_times", "is_iterable"]


class Batch(NamedTuple):
    """Items with their levels, enqueue times, due times and sizes, one of each per item."""

    items: Sequence[Any]
    levels: Sequence[int]
    enqueued: Sequence[float]
    due: Sequence[float]
    sizes: Sequence[int]

    def without(self, positions: Sequence[int]) -> Batch:
        kept = [True] * len(self.items)
        for position in positions:
            kept[position] = False
        return Batch(*(list(compress(column, kept)) for column in self))


class Columns(NamedTuple):
    """A batch as the caller gave it, read completely and checked. None stands for defaults that depend on the time of the put."""

    items: list[Any]
    levels: list[int]
    enqueued: list[float] | None
    deadlines: list[float | None] | None
    sizes: list[int]

    def put_at(self, now: float, level_deadlines: tuple[float, ...]) -> Batch:
        if self.enqueued is None:
            enqueued = [now] * len(self.items)
            # One float per level is made, not one per item.
            due = list(map([now + deadline for deadline in level_deadlines].__getitem__, self.levels))
        else:
            enqueued = [min(time, now) for time in self.enqueued]
            due = list(map(add, enqueued, map(level_deadlines.__getitem__, self.levels)))
        if self.deadlines is not None:
            due = [
                levels_due if own is None else time + own
                for levels_due, time, own in zip(due, enqueued, self.deadlines, strict=True)
            ]
        return Batch(self.items, self.levels, enqueued, due, self.sizes)


def checked_columns(
    items: Iterable[Any],
    levels: int | Iterable[int],
    enqueued: float | Iterable[float] | None,
    deadlines: float | Iterable[float | None] | None,
    sizes: int | Iterable[int] | None,
    level_count: int,
) -> Columns:
    """Checks the columns of a batch. A single value stands for all items; None is the default: now, the level's deadline, no size."""
    if not is_iterable(items):
        raise SettingError(
            "items", f"must be a list or another iterable, not {items!r}; for a single item there is put"
        )
    items = list(items)
    count = len(items)
    return Columns(
        items,
        _levels(_column("levels", levels, count), level_count),
        None if enqueued is None else [_instant(time) for time in _column("enqueued", enqueued, count)],
        None
        if deadlines is None
        else [None if own is None else seconds("deadlines", own) for own in _column("deadlines", deadlines, count)],
        [0] * count if sizes is None else [entry_size(size) for size in _column("sizes", sizes, count)],
    )


def batch_of_runs(
    runs: Sequence[tuple[int, Sequence[Any], Sequence[int] | int]],
    enqueued: float | None,
    level_deadlines: tuple[float, ...],
    now: float,
) -> Batch:
    """Converts runs (each a level, items and their sizes or one size for all) to a batch of single entries."""
    batch = Batch([], [], [], [], [])
    for level, items, sizes in runs:
        time, due = entry_times(level, enqueued, None, level_deadlines, now)
        count = len(items)
        columns = (
            items,
            [level] * count,
            [time] * count,
            [due] * count,
            sizes if not isinstance(sizes, int) else [sizes] * count,
        )
        for column, more in zip(batch, columns, strict=True):
            column.extend(more)  # type: ignore[attr-defined]  # lists, as made above
    return batch


def is_iterable(values: Any) -> bool:
    """Returns whether values can be iterated, by trying: numpy's zero-dimensional arrays claim to be iterable but are not."""
    try:
        iter(values)
    except TypeError:
        return False
    return True


def entry_times(
    level: int, enqueued: float | None, deadline: float | None, level_deadlines: tuple[float, ...], now: float
) -> tuple[float, float]:
    """Returns the enqueue and due times of a single item, without making columns. An enqueue time in the future becomes now: a clock
    that is ahead of ours must not make waits negative."""
    time = now if enqueued is None else min(_instant(enqueued), now)
    return time, time + (level_deadlines[level] if deadline is None else seconds("deadline", deadline))


def entry_level(level: int, levels: int) -> int:
    if type(level) is int and 0 <= level < levels:
        return level
    return _levels([level], levels)[0]


def entry_size(size: int) -> int:
    if type(size) is int and size >= 0:
        return size
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise SettingError("size", f"must be a whole number of at least 0, not {size!r}")
    return size


def _column(name: str, values: Any, count: int) -> list[Any]:
    if hasattr(values, "tolist"):  # converts numpy's numbers to Python's
        values = values.tolist()
    if not isinstance(values, Iterable):
        return [values] * count
    column = list(values)
    if len(column) != count:
        raise SettingError(name, f"there are {len(column):,} for {count:,} items")
    return column


def _levels(column: list[Any], levels: int) -> list[int]:
    # Looking at the distinct levels is faster. Numbers of other types that equal an int, such as 1.0 and True, are found by their type.
    if set(map(type, column)) - {int}:
        column = [_level(level) for level in column]
    for level in set(column):
        if not 0 <= level < levels:
            raise SettingError("level", f"must be a number from 0 (lowest) to {levels - 1} (highest), not {level!r}")
    return column


def _level(level: Any) -> int:
    try:
        if not isinstance(level, bool):
            return index(level)
    except TypeError:
        pass
    raise SettingError("level", f"must be a whole number, not {level!r}")


def _instant(time: Any) -> float:
    if type(time) is float and isfinite(time):
        return time
    if isinstance(time, bool) or not isinstance(time, int | float) or not isfinite(time):
        raise SettingError("enqueued", f"must be a time on the queue's clock, not {time!r}")
    return float(time)
