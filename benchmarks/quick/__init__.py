"""Within a minute, on this machine and if you like on your data: which engine, how fast, how much memory, and what more shards would bring.

python -m benchmarks quick
python -m benchmarks quick --subscriptions rules.csv --events events.jsonl

Subscriptions: CSV, TSV, JSON (lines or an array) or Parquet with the columns id and expression, or with id, attribute, low and high;
or .txt with an expression a line. Events: CSV, TSV, JSON or Parquet, a row each. Matches are compared with the specification on a sample.
Own events are matched in their order, in batches, once each, with the cache of code vectors: the second half is in the figures.
Times are of the processor, reading the events included, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.quick.comparison import Budget, compare, generated, given
    from ray_pubsub.engines.vector_cache import cache

    parser = argparse.ArgumentParser(prog="python -m benchmarks quick", description=__doc__)
    parser.add_argument("--subscriptions", type=Path, metavar="FILE")
    parser.add_argument("--events", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=55.0, help="stop comparing further engines after this long")
    options = parser.parse_args(arguments)
    if (options.subscriptions is None) != (options.events is None):
        parser.error("--subscriptions and --events belong together")
    budget = Budget(options.seconds)
    if options.subscriptions is not None:
        cache.ENABLED = (
            True  # own events are matched once each, in their order, so the cache saves what it saves in use
        )
        compare(given(options.subscriptions, options.events), budget)
        return
    for data in generated():
        compare(data, budget)
