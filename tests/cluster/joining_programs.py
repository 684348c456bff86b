"""Python programs that tests run in processes of their own, because a process is part of one cluster only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

JOINING = """
import dataclasses, json, sys
from actors.cluster.joining import join
from ray_pubsub.errors import ClusterError
address, start = json.loads(sys.argv[1])
try:
    joined = join(address, start=start)
    print(json.dumps(dataclasses.asdict(joined)))
    joined.leave()
except ClusterError as error:
    print(json.dumps({"error": error.reason, "address": error.address}))
"""

REFUSED = """
import json, sys
from actors.cluster.joining import join
from ray_pubsub.errors import ClusterError
answers = []
for address, start in json.loads(sys.argv[1]):
    try:
        joined = join(address, start=start)
    except ClusterError as error:
        answers.append({"error": error.reason, "address": error.address})
    else:
        joined.leave()
        answers.append({"error": "joined", "address": joined.address})
print(json.dumps({"answers": answers}))
"""


def begin(program: str, *arguments: Any, folder: Path, **environment: str | None) -> subprocess.Popen[str]:
    """Starts a program in a folder. Variables are added to this process's environment; None takes one out."""
    merged = {**os.environ, **environment}
    return subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(arguments)],
        cwd=folder,
        env={name: value for name, value in merged.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What each printed: a JSON object on a line of its own, beside what Ray may say. All have ended when this returns or raises."""
    return finish_with_errors(*processes)[0]


def finish_with_errors(*processes: subprocess.Popen[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """`finish`, and what each wrote to its stderr."""
    try:
        told = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    for process, (_, complaints) in zip(processes, told, strict=True):
        assert process.returncode == 0, complaints
    printed = [dict(json.loads(next(line for line in output.splitlines() if line[:1] == "{"))) for output, _ in told]
    return printed, [complaints for _, complaints in told]
