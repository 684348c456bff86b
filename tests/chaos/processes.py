"""The processes of a server: which there are, their process ids, and how to kill them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.transport.calls import answer
from ray_pubsub.errors import UnavailableError

__all__ = ["kill", "pid_of", "roles", "stopped"]


def roles(server: Any) -> dict[str, Any]:
    """The actor handles of a server by role: "registry", "shard-0", "coordinator-0"…"""
    named = {"registry": server.registry}
    named.update({f"shard-{number}": handle for number, handle in enumerate(server.shards)})
    named.update({f"coordinator-{number}": handle for number, handle in enumerate(server.coordinators)})
    if len(server.coordinators) > 1:
        named["mailboxes"] = server.mailboxes
    return named


PATIENCE = 120.0
"""Seconds in which a process must be back: many times what it takes, for a machine that is short of CPU."""


def pid_of(server: Any, role: str, timeout: float = PATIENCE) -> int:
    """The process id of a role; repeats the question until the process answers."""
    handle = roles(server)[role]
    method = "mailbox_health" if role == "mailboxes" else "health"
    ends = time.monotonic() + timeout
    while True:
        try:
            return int(answer(getattr(handle, method).remote(), role, 5.0)["pid"])
        except UnavailableError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


def kill(server: Any, *names: str) -> None:
    """kill -9 of these roles, all at once."""
    pids = [pid_of(server, name) for name in names]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@contextmanager
def stopped(server: Any, role: str) -> Iterator[None]:
    """The role's process hangs. The signal alone is not enough: the thread that takes it may wait for a CPU while another still answers."""
    pid = pid_of(server, role)
    os.kill(pid, signal.SIGSTOP)
    try:
        while not all(_is_stopped(thread) for thread in Path(f"/proc/{pid}/task").iterdir()):
            time.sleep(0.001)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_stopped(thread: Path) -> bool:
    """By the letter after the name, which is in brackets and may hold any character."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except FileNotFoundError:  # it has ended meanwhile
        return True
