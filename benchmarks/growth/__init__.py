"""Where cost grows: time, memory and building against the number of subscriptions, attributes, dimensions, matches and changes; fitted; and
from the fits what a cluster for a billion subscriptions would need.

python -m benchmarks growth [--most 1000000] [--folder experiments/growth]

The fit is also made without the largest size, and predicts it: that error is stated beside the model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.growth.report import report

    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description=__doc__)
    parser.add_argument(
        "--most", type=int, default=1_000_000, help="the largest number of subscriptions; 10,000,000 takes 8 GB"
    )
    parser.add_argument("--folder", type=Path, default=Path("experiments/growth"))
    options = parser.parse_args(arguments)
    report(options.most, options.folder)
