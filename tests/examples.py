"""How many examples Hypothesis draws of each property: few in every run, and as many as wanted where one has the time."""

from __future__ import annotations

import os

__all__ = ["EXAMPLES", "scaled"]

USUAL = 25
EXAMPLES = int(os.environ.get("EXAMPLES", str(USUAL)))
"""Of each property that does not say how many it needs; EXAMPLES=1000 make test looks longer."""


def scaled(usual: int) -> int:
    """For a property that needs another number than the others: grows and shrinks with EXAMPLES."""
    return max(1, usual * EXAMPLES // USUAL)
