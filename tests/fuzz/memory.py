"""How much memory a batch of inputs takes at its peak. Linux counts that, and lets a process begin again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["MOST_MEMORY", "bounded_memory", "resident"]

MOST_MEMORY = 256 << 20
"""The bytes that one batch may take at its peak, beyond what the process had. Most of it are kernels that are compiled at first use."""


def resident(field: str = "VmRSS") -> int:
    """Returns the process's memory in bytes: now, or the peak with the field VmHWM."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) << 10


@contextmanager
def bounded_memory(most: int = MOST_MEMORY) -> Iterator[None]:
    """Raises MemoryError if the block took more memory than this at its peak."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before = resident()
    yield
    taken = resident("VmHWM") - before
    if taken > most:
        raise MemoryError(f"took {taken >> 20} MB, and {most >> 20} MB are allowed")
