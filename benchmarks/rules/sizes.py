"""How much of everything a run of the benchmark uses."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """By default those of the targets."""

    subscriptions: int = 1_000_000
    """Of W1 and W4."""
    texts: int = 100_000
    """Added as texts."""
    rules: int = 100_000
    """Of the string workloads."""
    batch: int = 4096
    literals: int = 10_000
    settings: int = 40
    """Of the regret table."""
    seed: int = 1
    """Of its settings and classes."""
    largest_setting: int = 1_000_000
    classes: tuple[int, ...] = (2_000, 100_000)
    """The rules of each class of the regret table."""
    regret_batch: int = 1024
    race_seconds: float = 0.3
    """The least time for which two systems are compared."""
    rounds: int = 5

    @classmethod
    def quick(cls) -> Sizes:
        return cls(
            subscriptions=2000,
            texts=500,
            rules=2000,
            batch=256,
            literals=200,
            settings=3,
            largest_setting=2000,
            classes=(1000,),
            regret_batch=256,
            race_seconds=0.0,
            rounds=2,
        )

    def with_subscriptions(self, count: int) -> Sizes:
        return replace(self, subscriptions=count, texts=min(self.texts, count))
