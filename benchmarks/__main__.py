"""python -m benchmarks [name [options]]: runs the benchmarks, each figure beside a check that the result is right."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

NAMES = [
    "chaos",
    "churn",
    "conjunctive_forms",
    "delivery",
    "drift",
    "figures",
    "growth",
    "http",
    "ingest",
    "language",
    "latency",
    "mailboxes",
    "many_patterns",
    "matching",
    "node_loss",
    "overload",
    "priorities",
    "quick",
    "repeats",
    "rules",
    "scaling",
    "server",
    "spark",
    "stores",
    "updates",
    "urgency",
    "value_codes",
]

IN_SERVERS = {
    *(
        "chaos",
        "churn",
        "delivery",
        "http",
        "latency",
        "mailboxes",
        "node_loss",
        "overload",
        "server",
        "spark",
        "stores",
        "urgency",
    )
}


def module_of(name: str) -> str:
    return f"benchmarks.servers.{name}" if name in IN_SERVERS else f"benchmarks.{name}"


def main() -> None:
    # Most benchmarks match the same events again and again to measure matching, which a cache would skip.
    os.environ.setdefault("RAY_PUBSUB_VECTOR_CACHE", "off")
    given = sys.argv[1:]
    if given and given[0] in NAMES:  # --help too is the benchmark's own then
        importlib.import_module(module_of(given[0])).main(given[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES, help="which to run (default: all); its own options follow it")
    parser.parse_args()
    for name in NAMES:
        importlib.import_module(module_of(name)).main([])


if __name__ == "__main__":
    main()
