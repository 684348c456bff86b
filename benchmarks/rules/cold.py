"""The first answer of a process that finds nothing compiled and nothing measured: of few rules, of many, and where it compiles itself."""

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
batch = time.perf_counter()
assert len(index.match_json(b'{"model": "m3", "price": 50, "colour": "red"}\\n' * 20)) == 100
lines = time.perf_counter()
rules = ray_pubsub.PriorityRules(["low", "high"])
for number in range(100):
    rules.add(number, "high", f"model = 'm{number % 10}' and price <= {number}")
assert rules.priorities([{"model": "m3", "price": 50}, {"model": "m3", "price": 95}]) == ["high", "low"]
levels = time.perf_counter()
print(imported - start, answered - start, batch - answered, lines - batch, levels - lines, time.process_time())
background.stop()
"""
MANY = """
import time
start = time.perf_counter()
import ray_pubsub
from ray_pubsub.warming import background
index = ray_pubsub.MatchIndex()
numbers = range(5000)
index.add_many(numbers, [f"model = 'm{number % 10}' and price <= {number} and colour in ('red', 'blue')" for number in numbers])
found = index.match({"model": "m3", "price": 4950, "colour": "red"})
print(time.perf_counter() - start, time.process_time())
assert sorted(found) == [4953, 4963, 4973, 4983, 4993], found
background.stop()
"""
COMPILING = """
import time
import ray_pubsub
index = ray_pubsub.MatchIndex()
for number in range(100):
    index.add(number, f"model = 'm{number % 10}' and price <= {number} and colour in ('red', 'blue')")
start = time.process_time()
found = index.match({"model": "m3", "price": 50, "colour": "red"})
print(time.process_time() - start)
assert sorted(found) == [53, 63, 73, 83, 93], found
"""


def run(report: Report, sizes: Sizes) -> None:
    report.step("cold: a new process")
    imported, answered, batch, lines, levels, processor = _run(PROGRAM)
    note = f"{imported:.2f} s of it importing; by the clock; all of the program {processor:.2f} s of the processor"
    report.line("first answer", answered, "s", must=1.0, aim=0.5, more=False, note=note)
    report.line("first batch after it", batch, "s", more=False)
    report.line("first JSON lines", lines, "s", must=1.0, aim=0.1, more=False)
    report.line("first priorities, by 100 rules", levels, "s", must=1.0, aim=0.5, more=False)
    answered, processor = _run(MANY)
    note = f"adding them included; by the clock; all of the program {processor:.2f} s of the processor"
    report.line("first answer of 5,000 rules", answered, "s", more=False, note=note)
    (compiling,) = _run(COMPILING, kernels="now")
    note = "of the processor, for what a first match needs"
    report.line("kernels compiled by the first match", compiling, "s", must=3.0, more=False, note=note)


def _run(program: str, kernels: str = "") -> list[float]:
    """Returns what a program prints that finds no cache. `kernels`: see ray_pubsub/kernels/readiness.py."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"NUMBA_CACHE_DIR": folder, "RAY_PUBSUB_CACHE_DIR": folder, "RAY_PUBSUB_KERNELS": kernels}
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **places}, capture_output=True, text=True, check=True
        )
    return list(map(float, done.stdout.split()))
