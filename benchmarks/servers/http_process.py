"""The HTTP interface in a process of its own, for benchmarks."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.client.server import Server
from benchmarks.servers.bare_handler import ready

__all__ = ["interface"]


@contextmanager
def interface(server: Server) -> Iterator[tuple[int, int]]:
    """The port, and the process that works."""
    command = [sys.executable, "-m", "actors.http", server.name, "--address", server.address, "--port", "0", "--open"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"http://127.0.0.1:(\d+)/", line):
                break
        port = int(found[1]) if found else 0
        while not ready(port):
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield port, int(children[0])
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()
