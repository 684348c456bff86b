"""The state of a built structure as plain data: arrays, numbers, texts and nested states. `state()` methods write it, this module reads
it.

A state may come from an untrusted file. Therefore every access checks that the value exists, its type, its shape and, where a kernel uses
numbers as positions, their range. Kernels themselves check nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["SavedState", "State", "Texts", "UnfitStateError", "check", "check_offsets", "check_within", "packed_texts"]

State = dict[str, Any]
"""Maps names to arrays, ints, Texts, None, states and lists of states."""


class UnfitStateError(ValueError):
    """Raised if no structure can have this state."""


class Texts(NamedTuple):
    """A list of texts in a state. Texts are many, so they are stored as arrays."""

    texts: list[str]


def packed_texts(texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Returns where each text ends, and all texts in UTF-8."""
    column = pa.array(texts, pa.large_string())
    _, offsets, data = column.buffers()
    return (
        np.frombuffer(offsets, np.int64, len(texts) + 1) if offsets is not None else np.zeros(1, np.int64),
        np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8),
    )


def check(holds: Any, what: str) -> None:
    """Raises UnfitStateError unless the condition holds."""
    if not holds:
        raise UnfitStateError(what)


def check_within(array: NDArray[Any], least: int, most: int, what: str) -> None:
    """Checks that all numbers lie in least … most."""
    check(not array.size or (array.min() >= least and array.max() <= most), f"{what} out of range")


def check_offsets(offsets: NDArray[Any], end: int, what: str) -> None:
    """Checks that the offsets go from 0 to `end` and never decrease."""
    good = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == end and (offsets[1:] >= offsets[:-1]).all()
    check(good, f"{what} do not ascend to {end}")


class SavedState:
    """One state, with checked access by name."""

    def __init__(self, values: Any) -> None:
        check(isinstance(values, dict), "not a state")
        self._values: State = values

    def has(self, name: str) -> bool:
        """Returns whether the name exists and is not None."""
        return self._values.get(name) is not None

    def array(self, name: str, kind: Any, *shape: int | None) -> NDArray[Any]:
        """Returns an array of this dtype (or one of these) and shape; None stands for any length."""
        array = self._values.get(name)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        fits = (
            isinstance(array, np.ndarray)
            and array.dtype in kinds
            and array.ndim == len(shape)
            and all(wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True))
        )
        check(fits, f"{name} is not an array of the expected type and shape")
        assert isinstance(array, np.ndarray)
        return array

    def number(self, name: str, least: int, most: int) -> int:
        value = self._values.get(name)
        check(type(value) is int and least <= value <= most, f"{name} is not a number from {least} to {most}")
        assert isinstance(value, int)
        return value

    def word(self, name: str) -> str:
        value = self._values.get(name)
        check(type(value) is str, f"{name} is not a word")
        assert isinstance(value, str)
        return value

    def texts(self, name: str) -> list[str]:
        parts = SavedState(self._values.get(name))
        offsets, data = parts.array("offsets", np.int64, None), parts.array("data", np.uint8, None)
        check_offsets(offsets, len(data), name)
        column = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
        column.validate(full=True)
        found: list[str] = column.to_pylist()
        return found

    def state(self, name: str) -> SavedState:
        return SavedState(self._values.get(name))

    def states(self, name: str) -> list[SavedState]:
        values = self._values.get(name)
        check(isinstance(values, list), f"{name} is not a list of states")
        return [SavedState(each) for each in values or ()]
