"""The memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["process_bytes"]

STATUS = Path("/proc/self/status")


def process_bytes() -> int:
    """Returns the resident memory of this process alone, in bytes. Ray's object store, which all processes map, is not counted. Where
    the system does not report that (macOS), returns the most that the process ever had."""
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
