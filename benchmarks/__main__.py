"""python -m benchmarks [name …]: runs the benchmarks, each figure beside a check that the result is right."""

from __future__ import annotations

import argparse
import importlib

NAMES = ["ingest"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run: {', '.join(NAMES)} (default: all)")
    for name in parser.parse_args().names or NAMES:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; choose from {', '.join(NAMES)}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
