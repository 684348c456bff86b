"""python -m ray_pubsub.warming: compiles all kernels into numba's cache, with a progress bar."""

from __future__ import annotations

import argparse
import gc
import os

from ray_pubsub.kernels.readiness import VARIABLE


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ray_pubsub.warming", description=__doc__)
    parser.add_argument(
        "--background", action="store_true", help="quietly, at low priority, unless another process does it already"
    )
    parser.add_argument("--backwards", action="store_true", help="beside a process that compiles, from the other end")
    options = parser.parse_args(arguments)
    os.environ[VARIABLE] = "now"
    from ray_pubsub.warming.warm_up import warm_up, warm_up_backwards

    if options.backwards:
        warm_up_backwards()
        return
    if options.background:
        os.nice(5)
    warm_up(progress=not options.background, wait=not options.background)


if __name__ == "__main__":
    # The compiler makes and drops millions of objects. Looking for cycles among them at Python's own rate took 15 % of the time.
    gc.set_threshold(200_000, 20, 100)
    main()
