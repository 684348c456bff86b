"""Makes sure that processes that start together compile a kernel once: the first compiles it, the others wait and load it from disk.

Without this, every process would compile for itself. Worse, numba reads a kernel's index, adds to it and writes it back: if two processes
do so at once with different argument types, both may give their file the same number, and the index then has one's code for the other's
types. So compiling and saving are one step, under a lock per kernel, which the operating system releases if the process dies.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from ray_pubsub.kernels.kernel_cache import KernelCache

__all__ = ["compile_once", "use_cache"]


def compile_once(kernel: Any) -> Callable[..., Any]:
    """The kernel, whose compilation (or loading) waits for that of other processes."""
    compile_alone = kernel.compile

    def compile_in_turn(signature: Any) -> Any:
        # numba's own lock comes first: a thread that has it may need this kernel as a piece of another. Between processes, kernels are
        # locked from the whole to its pieces, never in a circle.
        with global_compiler_lock:
            use_cache(kernel)
            with _lock_of(kernel):
                return compile_alone(signature)

    kernel.compile = compile_in_turn
    # numba looks for extensions of its compiler among all installed packages, also when it only loads. It does so again when it compiles.
    kernel._compilation_chain_init_hook = lambda: None
    return kernel  # type: ignore[no-any-return]


def use_cache(kernel: Any) -> None:
    """Has the kernel kept on disk. Not done when it is decorated: for each of hundreds of kernels numba tries whether it can write a file,
    which took a tenth of the time that the package takes to import."""
    if kernel.stats.cache_path is None:
        kernel._cache = KernelCache(kernel.py_func)


_held: set[str] = set()
"""Of this process; the thread that holds numba's lock uses it."""


@contextmanager
def _lock_of(kernel: Any) -> Iterator[None]:
    """Held by one process at a time. Where files cannot be written or locked, everyone compiles for himself."""
    code, folder = kernel.py_func.__code__, kernel.stats.cache_path
    path = f"{folder}/{Path(code.co_filename).stem}.{code.co_name}-{code.co_firstlineno}.lock"
    if folder is None or path in _held:  # a kernel that calls itself
        yield
        return
    with ExitStack() as held:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            file = held.enter_context(Path(path).open("wb"))
            fcntl.flock(file, fcntl.LOCK_EX)
            held.callback(fcntl.flock, file, fcntl.LOCK_UN)  # closing alone would leave it to a child forked meanwhile
        except OSError:
            pass
        _held.add(path)
        held.callback(_held.discard, path)
        yield
