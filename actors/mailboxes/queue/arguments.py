"""Checks the arguments of the queue's methods, except the columns of a put (`batch`). A SettingError names the argument and says what it
must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from math import inf, isnan
from typing import Any

from actors.mailboxes.queue.batch import entry_level, entry_size, is_iterable
from actors.mailboxes.queue.entries import TakenEntry
from actors.mailboxes.queue.policy import Policy, Scheduler, Strict
from ray_pubsub.errors import SettingError

__all__ = [
    "Runs",
    "checked_bound",
    "checked_clock",
    "checked_count",
    "checked_deliveries",
    "checked_delivery",
    "checked_runs",
    "reading",
    "scheduler_of",
]

SURELY_ITEMS = (range, list)  # these need no check for being iterable, which takes longer than putting them
Runs = Sequence[tuple[int, Sequence[Any], Sequence[int] | int]]


def checked_bound(setting: str, value: int | None) -> float:
    if value is None:
        return inf
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingError(setting, f"must be a whole number of at least 1, or None for no bound, not {value!r}")
    return value


def checked_count(setting: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SettingError(setting, f"must be a whole number of at least 0, not {value!r}")
    return value


def scheduler_of(policy: Policy | None, levels: tuple[str, ...]) -> Scheduler:
    if policy is None:
        policy = Strict()
    if isinstance(policy, type) or not callable(getattr(policy, "scheduler", None)):
        raise SettingError("policy", f"must be a policy such as Strict() or Weighted({{…}}), not {policy!r}")
    return policy.scheduler(levels)


def checked_clock(clock: Callable[[], float]) -> Callable[[], float]:
    if not callable(clock):
        raise SettingError("clock", f"must be a function that gives seconds, such as time.monotonic, not {clock!r}")
    return clock


def reading(time: Any) -> float:
    """Checks and returns the value that a clock returned."""
    if type(time) is float:
        return time
    if isinstance(time, int | float):
        return float(time)
    raise SettingError("clock", f"must give seconds as a number, not {time!r}")


def checked_runs(runs: Runs, levels: int) -> tuple[int, int]:
    """Checks runs. Returns the total number of entries and the sum of their sizes."""
    count = total = 0
    if type(runs) is not list and not isinstance(runs, Sequence):
        raise SettingError("runs", f"must be a list of (level, items, sizes), not {runs!r}")
    for run in runs:
        if (type(run) is not tuple and not isinstance(run, tuple | list)) or len(run) != 3:
            raise SettingError("runs", f"each must be (level, items, sizes), not {run!r}")
        level, items, sizes = run
        entry_level(level, levels)
        if type(items) not in SURELY_ITEMS and (
            not is_iterable(items) or isinstance(items, Mapping | Set) or not hasattr(items, "__len__")
        ):
            raise SettingError("runs", f"items must be a list or another sequence, not {items!r}")
        length = len(items)
        count += length
        if isinstance(sizes, int):
            total += entry_size(sizes) * length
            continue
        if not isinstance(sizes, Sequence):
            raise SettingError("sizes", f"must be a whole number or a list of them, not {sizes!r}")
        if len(sizes) != length:
            raise SettingError("sizes", f"there are {len(sizes):,} for {length:,} items")
        if length:
            total += _total_size(sizes)
    return count, total


def _total_size(sizes: Sequence[int]) -> int:
    """Returns the sum of sizes without looking at each one: if the smallest is not negative none is, and a sum is whole only if all
    sizes are."""
    try:
        entry_size(min(sizes))
        return entry_size(sum(sizes))
    except TypeError:
        raise SettingError("sizes", f"must be whole numbers of at least 0, not {sizes!r}") from None


def checked_deliveries(deliveries: Iterable[TakenEntry]) -> list[TakenEntry]:
    if not is_iterable(deliveries):
        raise SettingError("deliveries", f"must be a list of deliveries that this queue made, not {deliveries!r}")
    found = list(deliveries)
    for delivery in found:
        checked_delivery(delivery)
    return found


def checked_delivery(delivery: TakenEntry) -> TakenEntry:
    """Checks that a delivery is as a queue makes it. Anything else would break the order of a line."""
    if (
        not isinstance(delivery, TakenEntry)
        or not all(type(number) is int and number >= 0 for number in (delivery.order, delivery.size, delivery.level))
        or not all(
            type(time) is float and not isnan(time) for time in (delivery.enqueued, delivery.due, delivery.taken)
        )
    ):
        raise SettingError("deliveries", f"must be deliveries that this queue made, not {delivery!r}")
    return delivery
