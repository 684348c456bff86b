"""A Spark session on this machine, for examples, benchmarks and experiments: small, quiet, reachable from this machine only."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from spark_bridge.local_java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["local_session"]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}


def local_session(name: str, *, cores: int = 2, attempts: int = 4, **settings: str) -> SparkSession:
    """Returns a session whose workers run this Python and whose tasks have several attempts, as on a cluster. `settings` are Spark's,
    with underscores for dots: spark_driver_memory="1g". Raises SettingError if there is no Java for it."""
    use_java()
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{cores}, {attempts}]").appName(name)
    for setting, value in {**SETTINGS, **{each.replace("_", "."): given for each, given in settings.items()}}.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()
