"""python -m benchmarks [name [options]]: runs the benchmarks, each figure beside a check that the result is right."""

from __future__ import annotations

import argparse
import importlib
import sys

NAMES = [
    "chaos",
    "conjunctive_forms",
    "delivery",
    "ingest",
    "mailboxes",
    "many_patterns",
    "matching",
    "node_loss",
    "priorities",
    "scaling",
    "server",
    "spark",
    "updates",
]


def main() -> None:
    given = sys.argv[1:]
    if given and given[0] in NAMES:  # --help too is the benchmark's own then
        importlib.import_module(f"benchmarks.{given[0]}").main(given[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES, help="which to run (default: all); its own options follow it")
    parser.parse_args()
    for name in NAMES:
        importlib.import_module(f"benchmarks.{name}").main([])


if __name__ == "__main__":
    main()
