"""The one place where numba's options are set. Kernels are cached on disk by compile_once, when they are first compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from ray_pubsub.kernels.compiling_once import compile_once

__all__ = ["compiled", "holding_gil", "inlined", "piece"]

Function = Callable[..., Any]


def compiled(function: Function) -> Function:
    """A kernel: releases the GIL, so that readers run beside a writer, and is kept on disk between processes."""
    return compile_once(njit(nogil=True, error_model="numpy")(function))


def holding_gil(function: Function) -> Function:
    """A kernel that keeps the GIL: letting go of it would cost as much as the work, or no other thread may see the work half done."""
    return compile_once(njit(error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """A piece of a kernel."""
    return compile_once(njit(nogil=True, error_model="numpy", inline="always")(function))


def piece(function: Function) -> Function:
    """A function that kernels call and that allocates nothing: without reference counting, a call with a few arrays costs a fifth."""
    return compile_once(njit(nogil=True, error_model="numpy", _nrt=False)(function))
