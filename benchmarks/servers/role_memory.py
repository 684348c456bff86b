"""The memory of every process of a server, by role, and of the Ray processes beside it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.client.server import Server
from tests.chaos.processes import pid_of, roles

__all__ = ["RoleMemory", "folder_bytes", "watched"]

INTERVAL = 0.25


class RoleMemory:
    """Samples what belongs to each process alone (RssAnon), and remembers the most."""

    def __init__(self, server: Server) -> None:
        self.pids = {role: pid_of(server, role) for role in roles(server)}
        self.pids.update(_of_ray(os.getpid()))
        self.pids["publishers"] = os.getpid()
        self.most: dict[str, int] = {}

    def sample(self) -> dict[str, int]:
        found = {role: _anonymous(pid) for role, pid in self.pids.items()}
        for role, size in found.items():
            self.most[role] = max(size, self.most.get(role, 0))
        return found


@contextmanager
def watched(memory: RoleMemory) -> Iterator[None]:
    """Samples in a thread as long as the block runs."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(INTERVAL):
            memory.sample()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        memory.sample()


def folder_bytes(folder: Path) -> dict[str, int]:
    """Of the files of a data folder, logs and checksums counted with their database."""
    found: dict[str, int] = {}
    for path in folder.iterdir():
        database = path.name.split(".")[0]
        found[database] = found.get(database, 0) + path.stat().st_size
    return found


def _anonymous(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def _of_ray(parent: int) -> dict[str, int]:
    """Returns the store of the cluster's state (GCS) and the node's manager (raylet) of a cluster that this process has started."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            status = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        if int(status["PPid"]) == parent:
            for name, role in (("gcs_server", "Ray's GCS"), ("raylet", "Ray's raylet")):
                if status["Name"].strip() == name:
                    found[role] = int(status["Pid"])
    return found
