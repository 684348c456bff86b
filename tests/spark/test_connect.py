"""Under Spark Connect the driver has no JVM and no RDD: the same calls give the same answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spark_settings import TOGETHER

if TYPE_CHECKING:
    from actors.server import Server

pytestmark = TOGETHER
PROGRAM = Path(__file__).with_name("connect_program.py")


def test_under_spark_connect(server: Server) -> None:
    # SPARK_TESTING: the server takes a free port, so that two runs on one machine do not meet.
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1"}
    environment = {
        name: value for name, value in environment.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_REMOTE"))
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), server.name, server.address],
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
        "refused": [["tags", "array<int>", answer["refused"][0][2]]],
        "from a table": [10],
        "loaded": [3, 0],
        "matched": [[30_000 + n, f"connect-{n}", "connected", "low"] for n in range(3)],
    }
    deliveries = server.poll("connected")
    assert sorted(delivery.event_id for delivery in deliveries) == [30_000, 30_001, 30_002]
    server.ack(deliveries)
