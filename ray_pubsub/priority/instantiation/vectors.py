"""A signature vector: a set of attributes that rules use together, and for each of them how its bins are grouped (paper §4.3.1).

A signature is the vector, the identity of its discretization and the number of a cell: bins as digits of mixed radix, hashed together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from ray_pubsub.kernels.priority.signatures import NOWHERE, pieces_of_ranges, pieces_within
from ray_pubsub.priority.instantiation.bins import Ranges, joined_ranges

__all__ = ["Vector"]


class Vector:
    """`groups[i]` says for each bin of attribute i its group in this vector; group 0 is the rest."""

    def __init__(self, names: tuple[str, ...], columns: tuple[int, ...], groups: list[NDArray[np.int32]]) -> None:
        self.names = names
        self.columns = columns
        self.groups = groups
        self.shape = np.array([int(group.max(initial=0)) + 1 for group in groups], dtype=np.int64)
        strides = [int(math.prod(self.shape[place + 1 :].tolist())) for place in range(len(groups))]
        self.strides = np.array(strides, dtype=np.int64)
        self.cells = math.prod(self.shape.tolist())
        self.open_rest = [False] * len(groups)
        """Whether a rule admits bins that belong to the rest."""
        self._lookups = [_Lookups(group) for group in groups]
        self.discretizer_id = ""
        self.salt = 0

    def identify(self, fingerprints: list[bytes]) -> None:
        """Sets the vector's identity, which is the same in every process: its attributes, their edges, their groups."""
        digest = xxhash.xxh3_64()
        for fingerprint, group in zip(fingerprints, self.groups, strict=True):
            digest.update(fingerprint)
            digest.update(group.tobytes())
        self.discretizer_id = digest.hexdigest()
        self.salt = xxhash.xxh3_64_intdigest("\0".join([*self.names, self.discretizer_id]).encode())

    def remap(self, place: int, bins: NDArray[np.int64]) -> None:
        """Follows a reduction of the attribute's bins: new bin i contains old bin bins[i]."""
        group = self.groups[place][bins]
        self.groups[place] = group
        self._lookups[place] = _Lookups(group)

    def pieces(self, place: int, low: Any, high: Any, pieces: NDArray[np.int32], *, inner: bool) -> None:
        """Converts many ranges of bins to ranges of groups; with `inner`, to the groups that lie wholly within them."""
        lookups = self._lookups[place]
        if inner:
            pieces_within(low, high, lookups.begins_after, lookups.ends_before, pieces)
        else:
            pieces_of_ranges(low, high, lookups.after, lookups.before, lookups.rest_until, pieces)

    def runs(self, place: int, ranges: Ranges, *, inner: bool) -> Ranges:
        """Returns the same for the ranges of one test."""
        found: list[tuple[int, int]] = []
        lookups = self._lookups[place]
        for low, high in ranges:
            if inner:
                found.append((int(lookups.begins_after[low]), int(lookups.ends_before[high])))
                continue
            found.append((int(lookups.after[low]), int(lookups.before[high])))
            if lookups.rest_until[high + 1] > lookups.rest_until[low]:
                found.append((0, 0))
        return joined_ranges(found)

    def steps(self, place: int) -> NDArray[np.int64]:
        """Returns what each bin adds to the cell's number."""
        group = self.groups[place].astype(np.int64)
        return np.where(group > 0, group * self.strides[place], 0 if self.open_rest[place] else NOWHERE)

    def bins_like(self, place: int, bin_: int) -> tuple[int, int]:
        """Returns the bins of an attribute that are in one group with this bin; of the rest, only its neighbours."""
        group = self.groups[place]
        changes = np.flatnonzero(np.diff(group)) + 1
        number = int(np.searchsorted(changes, bin_, side="right"))
        bounds = [0, *changes.tolist(), len(group)]
        return bounds[number], bounds[number + 1] - 1


class _Lookups:
    """For each bin, the groups at, before and after it."""

    def __init__(self, group: NDArray[np.int32]) -> None:
        beyond = np.int32(int(group.max(initial=0)) + 1)
        self.after: NDArray[np.int32] = _least_from(np.where(group > 0, group, beyond))
        """The least group that has the bin or a later one."""
        self.before: NDArray[np.int32] = np.maximum.accumulate(group)
        """The largest group that has the bin or an earlier one."""
        self.rest_until = np.concatenate([[0], np.cumsum(group == 0)])
        """How many bins before it are rest."""
        changes = np.diff(group, prepend=np.int32(-1), append=np.int32(-1)) != 0
        begins, ends = changes[:-1] & (group > 0), changes[1:] & (group > 0)
        self.begins_after: NDArray[np.int32] = _least_from(np.append(np.where(begins, group, beyond), beyond))
        """The least group that begins at the bin or later."""
        self.ends_before: NDArray[np.int32] = np.maximum.accumulate(np.where(ends, group, 0))
        """The largest group that ends at the bin or earlier."""


def _least_from(groups: NDArray[np.int32]) -> NDArray[np.int32]:
    found: NDArray[np.int32] = np.minimum.accumulate(groups[::-1])[::-1]
    return found
