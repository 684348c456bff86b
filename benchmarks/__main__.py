"""python -m benchmarks [name [options]]: runs the benchmarks, each figure beside a check that the result is right."""

from __future__ import annotations

import argparse
import importlib

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES, help="which to run (default: all); its own options follow")
    known, rest = parser.parse_known_args()
    for name in [known.name] if known.name else NAMES:
        importlib.import_module(f"benchmarks.{name}").main(rest)


if __name__ == "__main__":
    main()
