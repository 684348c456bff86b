"""How often events have each column of a block, for the engines that choose pivots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodeSpace
from ray_pubsub.engines.contract import Frequency

__all__ = ["column_frequency"]

RARELY = 1e-9
"""Added to every frequency, so that among attributes that no event had, the tests' own selectivity decides."""


def column_frequency(space: CodeSpace, frequency: Frequency) -> NDArray[np.float64]:
    """Returns the frequency of each column. `frequency` is by attribute number; an attribute beyond its end, or every attribute if it is
    None, counts as present in every event."""
    shares = np.ones(space.columns)
    if frequency is not None:
        attributes = np.concatenate([space.attributes, space.patterns.attributes]).astype(np.int64)
        known = attributes < len(frequency)
        shares[known] = frequency[attributes[known]] + RARELY
    return shares
