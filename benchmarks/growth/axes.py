"""What grows: subscriptions, attributes, dimensions, matching rate; and the two kinds of data that a cluster is modelled for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ray_pubsub.workloads import SparseTests, Workload, dexin, generate_ranges, generate_sparse

__all__ = ["EVENTS", "SHAPES", "Axis", "axes_to", "dense", "middle_of", "sparse"]

EVENTS = 256


class Axis(NamedTuple):
    """One thing that grows."""

    name: str
    label: str
    sizes: Sequence[float]
    make: Callable[[float], Workload]


def dense(count: int, **changed: Any) -> Workload:
    """DEXIN's ranges without its points, which is W1."""
    setting = dexin(subscriptions=count, points=0.0, cardinality=1_000_000, events=EVENTS)
    return generate_ranges(setting.having(**changed))


def sparse(count: int, **changed: Any) -> Workload:
    return generate_sparse(SparseTests(subscriptions=count, events=EVENTS).having(**changed))


SHAPES: dict[str, Callable[[int], Workload]] = {"dense-n": dense, "sparse-n": sparse}


def middle_of(most: int) -> int:
    """Returns the number of subscriptions where something else grows."""
    return min(100_000, most // 3)


def axes_to(most: int) -> list[Axis]:
    """Returns the axes; subscriptions grow from 10,000 to `most`."""
    sizes = [size for size in (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000) if size <= most]
    middle = middle_of(most)
    return [
        Axis("dense-n", "subscriptions, ranges on 10 attributes", sizes, lambda n: dense(int(n))),
        Axis("sparse-n", "subscriptions, 1 to 8 tests on 20,000 attributes", sizes, lambda n: sparse(int(n))),
        Axis("dense-m", f"attributes, {middle:,} subscriptions", (2, 5, 10, 20, 40), lambda m: dense(middle, attributes=int(m))),
        Axis("sparse-d", f"dimensions, {middle:,} subscriptions", (100, 1000, 10_000, 60_000),
             lambda d: sparse(middle, dimensions=int(d))),
        Axis("rate", f"matching rate, {middle:,} subscriptions", (0.001, 0.005, 0.02, 0.1),
             lambda rate: dense(middle, matching_rate=rate)),
    ]  # fmt: skip
