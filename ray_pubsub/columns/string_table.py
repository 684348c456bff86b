"""The string operands of one column of a block as a hash table, so that a string's code is found without Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.string_hashes import hashes_of
from ray_pubsub.kernels.columns.strings import Operands, build_string_table, operand_offsets, string_prefixes
from ray_pubsub.model.text_column import TextColumn

__all__ = ["StringTable"]


class StringTable:
    """Immutable hash table of sorted operands."""

    def __init__(self, operands: Sequence[str]) -> None:
        """The operands are sorted and distinct."""
        self._size = len(operands)
        column = TextColumn.encoded(operands)
        slots, prefixes = build_string_table(hashes_of(column)), string_prefixes(*column.bytes)
        self._operands = tuple(Operands(slots, prefixes, *column.bytes))

    def codes(self, strings: TextColumn, base: int) -> NDArray[np.int32]:
        """The code of each string, for a track whose codes begin at `base`."""
        if not self._size:
            return np.full(len(strings), base, dtype=np.int32)  # no string needs a hash where only patterns are asked
        codes = np.empty(len(strings), dtype=np.int32)
        operand_offsets(*strings.bytes, hashes_of(strings), self._operands, base, codes)
        return codes
