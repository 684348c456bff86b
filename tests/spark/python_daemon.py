"""Spark's daemon of Python workers, with what its tasks import already imported: the tests start about fifty workers, each a fork of it,
and every one would import for two seconds. Spark's own daemon imports after the fork; test_connect.py runs that one.

python -m tests.spark.python_daemon pyspark.worker
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

MODULES = (
    "pandas",
    "actors.client.starting",
    "spark_bridge.backtesting.worker",
    "spark_bridge.loading_worker",
    "spark_bridge.matching_worker",
)


def main() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would be missing in a fork
    for module in (sys.argv[1], *MODULES):
        importlib.import_module(module)
    gc.freeze()  # workers collect garbage after every task, and need not look at all modules each time
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
