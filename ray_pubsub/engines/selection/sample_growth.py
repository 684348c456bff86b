"""What a sample of clauses says of all of them: how many different constants they have, how many codes their ranges span."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import KINDS, RANKED, CodedTests

__all__ = ["different_constants", "grown_codes"]

Floats = NDArray[np.float64]


def different_constants(coded: CodedTests, step: int) -> Floats:
    """Estimates for each column how many constants of equalities and sets all clauses have, from those of one clause in `step`."""
    columns = coded.space.columns
    points = (coded.low == coded.high) & (coded.low > 0)
    column, code = [coded.column[points]], [coded.low[points]]
    if coded.pieces is not None:
        several = np.flatnonzero(coded.pieces >= 0)
        first = coded.piece_offsets[coded.pieces[several]]
        lengths = coded.piece_offsets[coded.pieces[several] + 1] - first
        piece = np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        single = coded.piece_low[piece] == coded.piece_high[piece]
        column.append(np.repeat(coded.column[several], lengths)[single])
        code.append(coded.piece_low[piece][single])
    place = np.concatenate(column).astype(np.int64)
    drawn = np.bincount(place, minlength=columns).astype(np.float64)
    seen = np.bincount(np.unique(place << 32 | np.concatenate(code)) >> 32, minlength=columns).astype(np.float64)
    return _scaled(seen, drawn, step)


def grown_codes(coded: CodedTests, step: int) -> Floats:
    """Estimates for each column how many codes the operands of all clauses make for each one of the sample: a range of a few codes here is
    one of many there."""
    columns = coded.space.columns
    grown: Floats = np.ones(columns)
    ranges = (coded.low < coded.high) & (coded.low > 0)
    if step == 1 or not ranges.any():
        return grown
    column = coded.column[ranges].astype(np.int64)
    ends = np.concatenate([column << 32 | coded.low[ranges], column << 32 | coded.high[ranges]])
    drawn = 2.0 * np.bincount(column, minlength=columns).astype(np.float64)
    seen = np.bincount(np.unique(ends) >> 32, minlength=columns).astype(np.float64)
    grown = _scaled(seen, drawn, step) / np.maximum(1.0, seen)
    # Where operands are not listed, there is a code for each integer, whatever the operands.
    listed = (coded.space.least.reshape(-1, KINDS) == RANKED).all(axis=1)
    grown[: len(listed)][~listed] = 1.0
    return grown


def _scaled(seen: Floats, drawn: Floats, step: int) -> Floats:
    """Returns how many different ones all clauses have, if a sample of one in `step` drew `drawn` and saw `seen`."""
    estimate = np.maximum(1.0, seen)
    with np.errstate(over="ignore"):
        for _ in range(20):  # a fixed point: d = seen / (1 - exp(-drawn / d))
            estimate = np.minimum(seen * step, seen / -np.expm1(-np.maximum(drawn, 1e-9) / estimate))
            estimate = np.maximum(1.0, estimate)
    return estimate
