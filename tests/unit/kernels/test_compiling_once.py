"""Processes that start together: every kernel is compiled by one of them, and kept for all types of arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERNELS = """
from ray_pubsub.kernels.compiled import compiled, inlined

@inlined
def twice(value):
    return value + value

@compiled
def total(values):
    found = values[0]
    for value in values[1:]:
        found += twice(value)
    return found

@compiled
def countdown(number):
    return number if number < 1 else countdown(number - 1)
"""
# Waits until all are there, says what the kernel says for each type, how often it was compiled, and whether numba prepared for compiling.
PROGRAM = """
import sys
import numpy as np
from kernels_of_this_test import countdown, total

print("ready", flush=True)
for name in sys.stdin.readline().split():
    assert total(np.arange(4, dtype=name)) == 12, name
assert countdown(3) == 0
prepared = "numba.np.linalg" in sys.modules
print(sum(total.stats.cache_misses.values()), sum(countdown.stats.cache_misses.values()), int(prepared))
"""


def started(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment, cwd=Path(__file__).parents[3], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def compilations(processes: list[subprocess.Popen[str]], names: list[str]) -> list[list[int]]:
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process, own in zip(processes, names, strict=True):
        assert process.stdin is not None
        process.stdin.write(own + "\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [[int(count) for count in output.split()] for output in outputs]


def test_processes_that_start_together(tmp_path: Path) -> None:
    (tmp_path / "kernels_of_this_test.py").write_text(KERNELS)
    counts = compilations([started(tmp_path) for _ in range(2)], ["int64 uint16", "uint16 int64"])
    assert [sum(column) for column in zip(*counts, strict=True)][:2] == [2, 1]
    assert compilations([started(tmp_path)], ["uint16 int64"]) == [[0, 0, 0]]
