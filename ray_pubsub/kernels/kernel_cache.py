"""Stores compiled kernels in the user's cache folder, by the content of their sources.

numba stores them beside each source file and checks whether that file has changed. This has two problems. A kernel contains the functions
of other files that it calls, so it is stale when one of those changes. And every copy of the package, in another environment or clone,
would compile again, for minutes, what the machine has already compiled. So the folder of a kernel is named by a hash of its file and of
everything that this file imports from the other kernels. If the user's cache cannot be used, numba's own folders are; NUMBA_CACHE_DIR
names another folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching, config
from numba.core.runtime import rtsys

__all__ = ["KernelCache", "source_hash"]

ROOT = Path(__file__).parent
MACHINERY = {"compiling_once", "kernel_cache", "readiness"}
"""Modules that decide where compiled kernels are kept, not what they are."""
PREFIX = "ray_pubsub.kernels."
IMPORTED = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    """The folder of one kernel, as numba asks for it."""

    def __init__(self, folder: Path, stamp: str, line: int) -> None:
        self._folder, self._stamp, self._line = folder, stamp, line

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator | None:
        """None if there is no folder for it that belongs to this user alone."""
        path, base = Path(py_file), _base_folder()
        if base is None or not path.exists():  # as for what is typed into a shell
            return None
        stamp = source_hash(path)
        folder = base / _name(path) / stamp
        locator = cls(folder, stamp, py_func.__code__.co_firstlineno)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator


class _Places(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator, *caching.CompileResultCacheImpl._locator_classes)


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, in our places."""

    _impl_class = _Places

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Loads a compiled kernel, or returns None. numba first prepares for compiling: it imports and registers all functions that it can
        compile, which takes a process a third of a second. A compiled kernel only needs the runtime; compiling prepares itself."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


@cache
def source_hash(path: Path) -> str:
    """Of a file and of all kernels that it imports, directly or not. For a file elsewhere, modules of its own package count as kernels."""
    found, waiting = {path}, [path]
    while waiting:
        for imported in _imports(waiting.pop()):
            if imported not in found:
                found.add(imported)
                waiting.append(imported)
    parts = sorted((str(_name(each)), each.read_bytes()) for each in found)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _name(path: Path) -> Path:
    """Of a file, wherever the package is. Others than this package use its kernels too: engines of users, references of benchmarks."""
    return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path("elsewhere") / path.name).with_suffix("")


@cache
def _imports(path: Path) -> list[Path]:
    names = set(IMPORTED.findall(path.read_text(encoding="utf-8")))
    kernels = {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)} - MACHINERY
    files = [ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in kernels]
    if not path.is_relative_to(ROOT):
        files += [
            above.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names for above in _above(path, name)
        ]
    return [file for file in files if file.exists()]


def _above(path: Path, name: str) -> list[Path]:
    """The folder of the package that a module belongs to, if the file at `path` is in the same package."""
    package = name.partition(".")[0]
    return [folder for folder in path.parents if folder.name == package][:1]


@cache
def _base_folder() -> Path | None:
    """Compiled code is run, so nobody else may be able to write it."""
    chosen, general = config.CACHE_DIR, os.environ.get("XDG_CACHE_HOME", "")
    try:
        user = Path(general) if Path(general).is_absolute() else Path.home() / ".cache"
        folder = Path(chosen) if chosen else user / "ray-pubsub" / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    safe = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if safe or chosen else None
