"""The one place where numba's options are set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["compiled", "inlined"]

Function = Callable[..., Any]


def compiled(function: Function) -> Function:
    """A kernel: releases the GIL, so that readers run beside a writer, and is kept on disk between processes."""
    kernel: Function = njit(nogil=True, cache=True, error_model="numpy")(function)
    return kernel


def inlined(function: Function) -> Function:
    """A piece of a kernel."""
    piece: Function = njit(nogil=True, cache=True, error_model="numpy", inline="always")(function)
    return piece
