"""The first answer of a process that finds nothing compiled and nothing measured."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.rules.report import Report
from benchmarks.rules.sizes import Sizes

PROGRAM = """
import time
start = time.perf_counter()
import ray_pubsub
from ray_pubsub.warming import background
imported = time.perf_counter()
index = ray_pubsub.MatchIndex()
for number in range(100):
    index.add(number, f"model = 'm{number % 10}' and price <= {number} and colour in ('red', 'blue')")
found = index.match({"model": "m3", "price": 50, "colour": "red"})
answered = time.perf_counter()
assert sorted(found) == [53, 63, 73, 83, 93], found
events = [{"model": f"m{number % 10}", "price": number, "colour": "red"} for number in range(1000)]
index.match_many(events)
print(imported - start, answered - start, time.perf_counter() - answered, time.process_time())
background.stop()
"""


def run(report: Report, sizes: Sizes) -> None:
    report.step("cold: a new process")
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "NUMBA_CACHE_DIR": folder, "RAY_PUBSUB_CACHE_DIR": folder, "RAY_PUBSUB_KERNELS": ""}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, check=True
        )
        imported, answered, batch, processor = map(float, done.stdout.split())
    note = f"{imported:.2f} s of it importing; by the clock; all of the program {processor:.2f} s of the processor"
    report.line("first answer", answered, "s", must=1.0, aim=0.5, more=False, note=note)
    report.line("first batch after it", batch, "s", more=False)
