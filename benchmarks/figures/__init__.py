"""The figures and tables of the five papers, measured here: all engines, `auto` and the papers' reference systems.

python -m benchmarks figures [--scale small|paper] [--only dexin-2 rein-table-3 …] [--points 3] [--events 40]
                             [--folder docs/experiments] [--document docs/experiments.md]

Every point compares the matches of its events with a plain reference; TAMA, which is approximate, may find too much and never too little.
A run that was interrupted goes on where it stopped, also with more points than before. `--document` writes what the measurements say of the
papers' claims into a document.
`--scale small` takes 10,000 subscriptions for each million of the papers and a few minutes on two cores;
`--scale paper` takes the papers' numbers, hours, and about 16 GB of memory per process.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.figures.document import write_document
    from benchmarks.figures.pictures import PICTURES, TABLES
    from benchmarks.figures.running import run
    from benchmarks.figures.sweeps import SCALES

    parser = argparse.ArgumentParser(prog="python -m benchmarks figures", description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=[*PICTURES, *TABLES], default=[], help="dexin-2, rein-table-3, …"
    )
    parser.add_argument("--points", type=int, help="of each sweep at most: the first, the last, some between them")
    parser.add_argument("--events", type=int, help="at each point")
    parser.add_argument("--folder", type=Path, help="default: experiments/SCALE")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--document", type=Path, help="write claims and outcomes between the marks of this document")
    options = parser.parse_args(arguments)
    folder = options.folder or Path("experiments") / options.scale
    scale = SCALES[options.scale]
    scale = scale._replace(points=options.points or scale.points, events=options.events or scale.events)
    run(scale, options.only, folder, options.processes)
    if options.document:
        write_document(options.document, folder, options.scale)
