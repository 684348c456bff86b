"""python -m tests.crashes --seeds 1000: many histories of the stores with crashes, failing writes and power failures at any place. A seed
that fails is printed, and `--first SEED --seeds 1` replays it."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from rich.progress import track

from tests.crashes.test_crash_points import STORES, lived_through


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1000)
    given = parser.parse_args()
    reached: Counter[str] = Counter()
    failed = []
    seeds = range(given.first, given.first + given.seeds)
    for seed in track(seeds, description="histories"):
        place = random.Random(seed).choice([None, *STORES])
        with tempfile.TemporaryDirectory() as folder:
            try:
                reached += lived_through(Path(folder), seed, place, steps=60).reached
            except Exception as error:
                failed.append(seed)
                print(f"seed {seed} ({place or 'any place'}): {type(error).__name__}: {error}")
    for place, count in sorted(reached.items()):
        print(f"{place:<24}{count:>9,}")
    print(f"{len(seeds):,} histories, {len(failed)} failed{': ' if failed else ''}{failed or ''}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
