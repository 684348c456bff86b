"""A Spark of this machine, for examples, benchmarks and trying things out: small, quiet, and it says so if there is no Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ray_pubsub.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_java", "local_session"]

LEAST_JAVA = 17
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
    """A session on so many cores, in which a task has several attempts, as on a cluster, and whose workers run this Python. `settings`
    have underscores for dots: spark_driver_memory="1g"."""
    check_java()
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{cores}, {attempts}]").appName(name)
    for setting, value in {**SETTINGS, **{each.replace("_", "."): given for each, given in settings.items()}}.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def check_java() -> None:
    """Raises SettingError unless Spark would find a Java that it can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = f"Spark needs Java {LEAST_JAVA} or newer: install one (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to it"
    if java is None:
        raise SettingError("JAVA_HOME", f"there is no java on the PATH. {wanted}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SettingError("JAVA_HOME", f"{java} does not run ({error}). {wanted}") from None
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < LEAST_JAVA:
        raise SettingError("JAVA_HOME", f"{java} is {told.splitlines()[0] if told else 'no Java'}. {wanted}")
