"""The machine's constants: measured when first needed, and stored in a small file of the user's cache directory.

The probes (kernels/machine_probes.py) run a few times each, and the fastest run counts, because other load only ever adds time. The
file's name and content identify what the figures depend on (processor, package and numba version). A file that cannot be read, belongs to
something else, or contains anything but positive numbers is replaced by a new measurement. If nothing can be written, the figures are
kept for the life of the process. Processes that start at the same time may all measure; each replaces the file atomically, so a reader
sees one of them.

RAY_PUBSUB_CACHE_DIR names another directory. Delete the file to measure the machine again.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numba
import numpy as np
import xxhash

from ray_pubsub.engines.selection.machine import MachineConstants
from ray_pubsub.kernels import machine_probes as probes

__all__ = ["cache_directory", "constants_file", "machine_constants", "machine_key", "measure", "read", "write"]

CACHE_VARIABLE = "RAY_PUBSUB_CACHE_DIR"
REPEATS = 5
BLOCK = 65_536
SMALL_CALLS = 12
"""The number of small numpy calls that take as long as calling a segment: coding an event, allocating its matches."""

_measuring = threading.Lock()
_known: dict[str, MachineConstants] = {}


def machine_constants() -> MachineConstants:
    """Returns the constants from memory, from the file, or by measuring."""
    with _measuring:  # a second thread waits for the first one's figures
        key = str(cache_directory())
        if key not in _known:
            _known[key] = _read_or_measure()
        return _known[key]


def _read_or_measure() -> MachineConstants:
    path = constants_file()
    constants = read(path) if path is not None else None
    if constants is None:
        constants = measure()
        if path is not None:
            write(path, constants)
    return constants


@cache
def machine_key() -> dict[str, str]:
    """Returns what the figures depend on."""
    try:
        package = version("ray-pubsub")
    except PackageNotFoundError:
        package = "unknown"
    return {"processor": _processor(), "package": package, "numba": numba.__version__}


def cache_directory() -> Path | None:
    """Returns the directory, or None if there is no home directory."""
    chosen, general = os.environ.get(CACHE_VARIABLE), os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen)
    if general and Path(general).is_absolute():  # the XDG specification ignores others
        return Path(general) / "ray-pubsub"
    try:
        return Path.home() / ".cache" / "ray-pubsub"
    except RuntimeError:
        return None


def constants_file() -> Path | None:
    directory = cache_directory()
    name = xxhash.xxh64_hexdigest(json.dumps(machine_key(), sort_keys=True).encode())
    return None if directory is None else directory / f"machine-{name}.json"


def read(path: Path) -> MachineConstants | None:
    """Returns the constants of a file, None if it is not there or not one of this machine's."""
    try:
        content: Any = json.loads(path.read_bytes())
        return MachineConstants.from_dict(content["nanoseconds"]) if content["measured_on"] == machine_key() else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def write(path: Path, constants: MachineConstants) -> bool:
    """Replaces the file as a whole; False if it cannot be written."""
    content = json.dumps({"measured_on": machine_key(), "nanoseconds": constants.to_dict()}, indent=1)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, prefix=path.name, suffix=".new", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
        temporary.replace(path)
        return True
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        return False


def measure() -> MachineConstants:
    """Runs the probes. The same work every time; only the clock differs."""
    rng = np.random.default_rng(1)
    words, rows, columns = BLOCK // 64, BLOCK, 16
    sets = rng.integers(0, 2**63, (64, words), dtype=np.int64).astype(np.uint64)
    alive, spare = np.full(words, ~np.uint64(0)), np.empty(words, np.uint64)
    ids = rng.integers(0, BLOCK, BLOCK).astype(np.uint16)
    check = rng.integers(0, 4096, 2 * BLOCK).astype(np.int32)
    presence = (rng.random(4096) < 0.1).astype(np.uint8)
    out = np.empty(rows + 1, np.int32)
    tests = np.zeros((rows, 3 * columns), np.int32)
    tests[:, 0::3] = np.arange(columns)
    tests[:, 1::3] = rng.integers(0, 500, (rows, columns))
    tests[:, 2::3] = tests[:, 1::3] + 500
    codes = rng.integers(0, 1000, columns).astype(np.int32)
    candidates = np.sort(rng.choice(rows, rows // 16, replace=False)).astype(np.int32)
    following = np.empty(1 << 20, np.int32)
    cycle = rng.permutation(len(following)).astype(np.int32)
    following[cycle] = np.roll(cycle, -1)
    starts = iter(
        cycle[:: len(cycle) // (REPEATS + 1)].tolist()
    )  # at another place every time: what was read before is in the cache
    counters = np.zeros(BLOCK, np.uint8)
    steps = 4096
    return MachineConstants(
        word=_fastest(lambda: probes.probe_words(sets, alive, spare), sets.size),
        mark=_fastest(lambda: probes.probe_marks(ids, spare), len(ids)),
        entry=_fastest(lambda: probes.probe_entries(check, presence, out), len(check) // 2),
        check=_fastest(lambda: probes.probe_checks(candidates, tests, codes, out), len(candidates)),
        visit=_fastest(lambda: probes.probe_visits(following, next(starts), steps), steps),
        count=_fastest(lambda: probes.probe_counts(ids, counters, out), len(ids)),
        call=_fastest(_small_calls, 1),
    )


def _small_calls() -> None:
    for size in range(SMALL_CALLS):
        np.zeros(size, np.int64)[: size // 2].copy()


def _fastest(work: Callable[[], object], items: int) -> float:
    """Returns nanoseconds per item, in the fastest of some runs, after a first run that compiles."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return max(1, min(times)) / items


def _processor() -> str:
    """Returns the processor's name, with the compiler's name for it, because two processors may share a name."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    from llvmlite import binding

    return f"{name} ({binding.get_host_cpu_name()})"
