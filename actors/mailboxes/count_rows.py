"""The counts of very many mailboxes, a row each in one matrix.

Separate objects, however small, would lie scattered among larger ones that were freed since, and would keep the memory of those in use.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["CountRows"]

FEWEST = 64


class CountRows:
    """Rows of numbers by code. The matrix shrinks when most of it is unused."""

    def __init__(self, width: int) -> None:
        self._rows: NDArray[np.int64] = np.zeros((FEWEST, width), np.int64)
        self._code_of = np.zeros(FEWEST, np.int32)
        self._row_of = np.full(FEWEST, -1, np.int32)
        self._used = self._turn = 0
        self.sums = np.zeros(width, np.int64)

    def __len__(self) -> int:
        return self._used

    def __contains__(self, code: int) -> bool:
        return code < len(self._row_of) and bool(self._row_of[code] >= 0)

    def __getitem__(self, code: int) -> list[int]:
        counts: list[int] = self._rows[self._row_of[code]].tolist()
        return counts

    def first(self) -> int:
        """Returns the code of a row that has been here for long. There must be rows. Each call looks at the next one."""
        self._turn = (self._turn + 1) % self._used
        return int(self._code_of[self._turn])

    def codes(self) -> list[int]:
        codes: list[int] = self._code_of[: self._used].tolist()
        return codes

    def add(self, code: int, counts: list[int]) -> None:
        """Adds a row for a code that has none."""
        if self._used == len(self._rows):
            self._resize(2 * self._used)
        if code >= len(self._row_of):
            grown = np.full(max(code + 1, 2 * len(self._row_of)), -1, np.int32)
            grown[: len(self._row_of)] = self._row_of
            self._row_of = grown
        self._rows[self._used], self._code_of[self._used], self._row_of[code] = counts, code, self._used
        self._used += 1
        self.sums += counts

    def pop(self, code: int) -> list[int]:
        """Removes and returns the row of a code. The last row takes its place."""
        counts, row = self[code], self._row_of[code]
        self._used -= 1
        last = self._code_of[self._used]
        self._rows[row], self._code_of[row], self._row_of[last] = self._rows[self._used], last, row
        self._row_of[code] = -1
        self.sums -= counts
        if len(self._rows) > FEWEST and 4 * self._used <= len(self._rows):
            self._resize(len(self._rows) // 2)
        return counts

    def _resize(self, size: int) -> None:
        rows, codes = np.zeros((size, self._rows.shape[1]), np.int64), np.zeros(size, np.int32)
        rows[: self._used], codes[: self._used] = self._rows[: self._used], self._code_of[: self._used]
        self._rows, self._code_of = rows, codes
