"""Rules and events as people write them, one core: sets, texts, JSON, one event at a time, each figure beside what it must and should be.

python -m benchmarks rules [--quick] [--subscriptions N] [--groups w4,texts,largest,flat,logs,search,regret,engines,cold]
python -m benchmarks rules --groups regret [--settings N] [--largest N] [--classes N,N] [--seed S]

Every group compares the results with a reference in the same run and stops at the first difference. Rates depend on the machine, so the
first line says how long the compiled scan takes on W1; the targets are those of a machine where that is 3.5 ms at a million subscriptions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from benchmarks.rules.report import Report
from benchmarks.rules.sizes import Sizes

__all__ = ["GROUPS", "main"]

GROUPS = {
    "machine": "the compiled scan on W1, by which rates of different machines are compared",
    "w4": "audience segments: sets, some negated, and ranges on 8 attributes",
    "texts": "adding texts, no two of one shape",
    "largest": "the largest legal texts, one at a time",
    "flat": "five string tests on the same few attributes; three on a few of a thousand",
    "logs": "wide log events, rules with patterns",
    "search": "many texts searched for in log lines",
    "regret": "generated settings: auto beside every engine, a compiled scan and counting",
    "engines": "auto beside every engine that can be named: W4, string rules, rules as texts",
    "cold": "the first answer where nothing was compiled before",
}
"""Each is a module of this package with a function `run(report, sizes)`."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks rules", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: seconds, not minutes")
    parser.add_argument("--subscriptions", type=int, help="instead of a million")
    parser.add_argument("--groups", default=",".join(GROUPS), help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--settings", type=int, help="of the group regret: how many settings are generated")
    parser.add_argument("--largest", type=int, help="of the group regret: the most rules of a setting")
    parser.add_argument(
        "--classes", help="of the group regret: with how many rules each class is measured, 0 for not at all"
    )
    parser.add_argument("--seed", type=int, help="of the group regret: other settings")
    options = parser.parse_args(arguments)
    sizes = Sizes.quick() if options.quick else Sizes()
    if options.subscriptions:
        sizes = sizes.with_subscriptions(options.subscriptions)
    given = {"settings": options.settings, "largest_setting": options.largest, "seed": options.seed}
    sizes = replace(sizes, **{name: value for name, value in given.items() if value is not None})
    if options.classes:
        sizes = replace(sizes, classes=tuple(count for count in map(int, options.classes.split(",")) if count))
    report = Report()
    for name in options.groups.split(","):
        if name not in GROUPS:
            parser.error(f"there is no group {name!r}")
        run: Callable[[Report, Sizes], None] = import_module(f"benchmarks.rules.{name}").run
        with report.group(name, GROUPS[name]):
            run(report, sizes)
    report.summary()
