"""python -m tests.fuzz --inputs 1000000 --seed 1: random inputs for everything that reads what others wrote. A finding is printed with its
target and seed, and `--target NAME --only SEED` replays it."""

from __future__ import annotations

import argparse
import math
import time
import traceback
from collections import Counter

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz.memory import bounded_memory, resident
from tests.fuzz.targets import TARGETS, Target

LONGEST = 5.0
"""Seconds of CPU for one batch of inputs; a slower one is a finding too."""

LARGEST_PROCESS = 1 << 30
"""The bytes that the process may have when all inputs were tried."""


def tried(target: Target, seed: int) -> str | None:
    """What is wrong, if anything."""
    begun = time.process_time()
    try:
        with bounded_memory():
            target.run(seed)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:300]} ({last.filename}:{last.lineno})"
    took = time.process_time() - begun
    return f"took {took:.1f} s" if took > LONGEST else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=[target.name for target in TARGETS])
    parser.add_argument("--only", type=int, help="run this seed of the target, and show where it fails")
    given = parser.parse_args()
    chosen = [target for target in TARGETS if given.target in (None, target.name)]
    if given.only is not None:
        for target in chosen:
            target.run(given.only)
        return
    counted: Counter[str] = Counter()
    findings = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    total = sum(target.share for target in chosen)
    for target in chosen:  # the first batch compiles kernels, which is not the input's fault
        target.run(0)
    with Progress(*columns) as progress:
        for target in chosen:
            batches = math.ceil(given.inputs * target.share / total / target.batch)
            task = progress.add_task(target.name, total=batches * target.batch)
            for number in range(batches):
                seed = given.seed * 1_000_000 + number
                wrong = tried(target, seed)
                counted[target.name] += target.batch
                if wrong is not None:
                    findings.append(f"{target.name}, seed {seed}: {wrong}")
                    progress.console.print(findings[-1])
                progress.advance(task, target.batch)
    for name, count in counted.items():
        print(f"{name:<16}{count:>12,}")
    print(
        f"{sum(counted.values()):,} inputs, {len(findings)} findings; the process has {resident() >> 20} MB at the end"
    )
    if resident() > LARGEST_PROCESS:
        findings.append(
            f"the process has more than {LARGEST_PROCESS >> 20} MB, so something is kept of what was refused"
        )
        print(findings[-1])
    if findings:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
