"""Finds out whether kernels can be used without waiting: whether all have been compiled for this release, this Python and this processor.

Compiling them takes minutes. A process that finds none starts another process to do it (warming/background.py), and until that is done
answers what it can without kernels. Compiled kernels are in the user's cache (kernel_cache.py); a marker file there says that all are
compiled.

RAY_PUBSUB_KERNELS=now compiles every kernel at its first use, as if all were ready: for tests, and where no process may be started.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.compiling_once import use_cache
from ray_pubsub.kernels.index.id_table import insert
from ray_pubsub.kernels.kernel_cache import source_hash

__all__ = ["VARIABLE", "are_ready", "lock_path", "marker_path", "set_compiler"]

VARIABLE = "RAY_PUBSUB_KERNELS"
POLL_SECONDS = 0.05


@compiled
def _anchor():
    """Never called: its cache is where the marker is."""


class _State:
    ready = False
    asked = 0.0
    compile_elsewhere: Callable[[Path], bool] | None = None
    """Has kernels compiled by another process; returns whether one is at it."""


def are_ready() -> bool:
    """Returns whether to use kernels. The first call may start a process that compiles them."""
    if _State.ready:
        return True
    now = time.monotonic()
    if now - _State.asked < POLL_SECONDS:
        return False
    _State.asked = now
    _State.ready = _found_ready()
    return _State.ready


def _found_ready() -> bool:
    if os.environ.get(VARIABLE) == "now" or _State.compile_elsewhere is None:
        return True
    marker = marker_path()
    if marker is None or marker.exists() or (_are_some_compiled() and not lock_path(marker).exists()):
        return True
    return not _State.compile_elsewhere(marker)


def _are_some_compiled() -> bool:
    """Returns whether kernels were compiled before, of these or of other sources. Then what is missing is compiled where it is used:
    somebody works on the kernels, and would have all of them compiled after every change. If a lock file is there, compiling all was
    begun and goes on."""
    kernel: Any = insert
    use_cache(kernel)
    return kernel.stats.cache_path is not None and any(Path(kernel.stats.cache_path).parent.rglob("*.nbi"))


def set_compiler(compile_elsewhere: Callable[[Path], bool] | None) -> None:
    """Without one, kernels are always used."""
    _State.compile_elsewhere = compile_elsewhere
    _State.ready, _State.asked = False, 0.0


def marker_path() -> Path | None:
    """None if numba has no place for a cache. Its name has what compiled kernels depend on."""
    kernel: Any = _anchor
    use_cache(kernel)
    folder = kernel.stats.cache_path
    if folder is None:
        return None
    sources = [source_hash(path) for path in sorted(Path(__file__).parent.rglob("*.py"))]
    depends = (
        sources,
        sys.version,
        numba.__version__,
        binding.get_host_cpu_name(),
        str(binding.get_host_cpu_features()),
    )
    return Path(folder) / f"all-compiled-{zlib.crc32(repr(depends).encode()):08x}"


def lock_path(marker: Path) -> Path:
    """Locked by the process that compiles."""
    return marker.with_name(f"{marker.name}.lock")
