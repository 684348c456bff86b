"""Records which servers of this user run on this machine, and at which address: a small file for each, so that `connect` finds a server by
its name or its data folder although every local cluster has another port.

Notes are hints. A note whose cluster no longer answers was left by a program that was killed, and is removed by the next program that reads
it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ray_pubsub.errors import SettingError

__all__ = ["FOLDER_VARIABLE", "ServerNote", "check_name", "read_notes", "remove_note", "write_note"]

FOLDER_VARIABLE = "RAY_PUBSUB_RUNTIME_DIR"
OTHERS = stat.S_IRWXG | stat.S_IRWXO
NAMES = re.compile(r"[A-Za-z0-9_.-]{1,100}")
NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class ServerNote:
    """A note of one server: its name, its cluster's host:port, and its data folder, if it has one."""

    name: str
    address: str
    data_dir: str | None
    pid: int
    """The process id of the program that started it."""
    started: float

    @classmethod
    def of(cls, name: str, address: str, data_dir: str | None) -> ServerNote:
        """Returns the note of a server that this process has just started."""
        return cls(name, address, data_dir, os.getpid(), time.time())

    def __str__(self) -> str:
        kept = f"data in {self.data_dir}" if self.data_dir else "in memory"
        return f"{self.name!r} at {self.address} ({kept})"


def check_name(name: str) -> None:
    """Raises SettingError for what cannot be a server's name, which is also part of the names of files."""
    if not isinstance(name, str) or not NAMES.fullmatch(name):
        raise SettingError("name", f"must be 1 to 100 letters, digits, dots, dashes or underscores, not {name!r}")


def write_note(note: ServerNote) -> None:
    """Writes the note to the user's runtime folder, readable by this user only. Without a safe folder none is written; the server can
    still be found by its address."""
    for folder in _folders():
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(folder):
                continue
            draft = folder / f".{os.getpid()}.new"
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(asdict(note), file)
            draft.rename(folder / _file_name(note.name, note.address))
            return


def remove_note(name: str, address: str) -> None:
    """Removes the note of a server that has ended."""
    for folder in _folders():
        if _is_private(folder):
            with suppress(OSError):
                (folder / _file_name(name, address)).unlink()


def read_notes(name: str | None = None, data_dir: str | None = None) -> list[ServerNote]:
    """Returns the notes of servers with this name and this data folder, the newest first; None stands for any."""
    found: dict[tuple[str, str], ServerNote] = {}
    for folder in _folders():
        if not _is_private(folder):
            continue
        for path in sorted(folder.glob("*.json")):
            note = _read(path)
            if note and name in (None, note.name) and data_dir in (None, note.data_dir):
                found.setdefault((note.name, note.address), note)
    return sorted(found.values(), key=lambda note: note.started, reverse=True)


def _folders() -> Iterator[Path]:
    """Yields the folders that may have notes. A program that runs without a login session has no XDG_RUNTIME_DIR, so all of them are
    read."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        folder = Path(named)
        if not folder.is_absolute():
            raise SettingError(FOLDER_VARIABLE, f"must be an absolute path, not {named!r}")
        yield folder
        return
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute():
        yield runtime / "ray-pubsub"
    yield Path(tempfile.gettempdir()) / f"ray-pubsub-{os.geteuid()}"


def _is_private(folder: Path) -> bool:
    """Returns whether only this user can use the folder: a note that another user could write would lead a program to that user's
    cluster."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def _file_name(name: str, address: str) -> str:
    return f"{name}@{NOT_IN_A_FILE_NAME.sub('-', address)}.json"


def _read(path: Path) -> ServerNote | None:
    try:
        note = ServerNote(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    texts = isinstance(note.name, str) and isinstance(note.address, str)
    return note if texts and isinstance(note.started, int | float) else None
