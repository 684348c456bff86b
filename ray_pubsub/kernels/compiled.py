"""The one place where numba's options are set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from ray_pubsub.kernels.compiling_once import compile_once

__all__ = ["compiled", "inlined"]

Function = Callable[..., Any]


def compiled(function: Function) -> Function:
    """A kernel: releases the GIL, so that readers run beside a writer, and is kept on disk between processes."""
    return compile_once(njit(nogil=True, cache=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """A piece of a kernel."""
    return compile_once(njit(nogil=True, cache=True, error_model="numpy", inline="always")(function))
