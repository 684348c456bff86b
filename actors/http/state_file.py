"""The state that survives the HTTP process: webhooks and tokens, in one small file that only its user can read.

The folder belongs to one HTTP interface at a time: two of them would overwrite each other's file, and a token that one has revoked would
come back with the next change of the other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from actors.http.settings import ADMIN_TOKEN
from actors.http.tokens import SHORTEST_TOKEN
from actors.storage.private_folder import make_private_folder, sync_path, tighten_file
from ray_pubsub.errors import StoreError

__all__ = ["StateFile"]

NAME = "http.json"
LOCK = "http.lock"
PARTS = ("webhooks", "tokens")
CHECKSUM = "checksum"
LOCK_PATIENCE, PAUSE = 2.0, 0.02
"""The seconds to wait for another process that has the folder and may be ending, and between attempts."""


class StateFile:
    """The file is written as a whole and renamed, so that it is always complete. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """Claims the folder until `close`. Raises StoreError if another process has it, or if the file is damaged."""
        self.folder = folder
        self._path = folder / NAME
        self._lock = threading.Lock()
        self._claim = -1
        try:
            make_private_folder(folder, (NAME, ADMIN_TOKEN, LOCK))
            self._claim = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._wait_for_claim()
            for name in (NAME, ADMIN_TOKEN):
                tighten_file(folder / name)
            self._parts = self._read()
        except OSError as error:
            self.close()
            raise StoreError(str(self._path), error.strerror or str(error)) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Releases the folder. A second call does nothing."""
        if self._claim >= 0:
            os.close(self._claim)
            self._claim = -1

    def part(self, part: str) -> dict[str, Any]:
        """Returns a copy of the webhooks or the tokens, by name."""
        with self._lock:
            return dict(self._parts[part])

    def put(self, part: str, name: str, value: dict[str, Any] | None) -> bool:
        """Stores an entry or, with None, removes it; on return that is on disk. Returns whether there was one before."""
        with self._lock:
            changed = dict(self._parts[part])
            found = changed.pop(name, None) is not None
            if value is not None:
                changed[name] = value
            if value is not None or found:
                parts = {**self._parts, part: changed}
                write_private(self._path, json.dumps({**parts, CHECKSUM: _checksum(parts)}, indent=1))
                self._parts[part] = changed
            return found

    def admin_token(self, make: Any) -> tuple[str, Path]:
        """Returns the token of the first admin, which is created once, and the file that holds it. An empty file (a full disk may have left
        it) gets a new token; one that is too short raises StoreError, because somebody has chosen it."""
        path = self.folder / ADMIN_TOKEN
        token = path.read_bytes().decode(errors="replace").strip() if path.exists() else ""
        if not token.isascii():
            raise StoreError(str(path), "is damaged; remove it, and a new token is made")
        if 0 < len(token) < SHORTEST_TOKEN:
            raise StoreError(str(path), f"has fewer than {SHORTEST_TOKEN} characters; remove it, and a new one is made")
        if not token:
            token = str(make())
            write_private(path, token + "\n")
        return token, path

    def _wait_for_claim(self) -> None:
        ends = time.monotonic() + LOCK_PATIENCE
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if time.monotonic() > ends:
                raise StoreError(
                    str(self.folder), "is in use by another HTTP interface; stop that one, or name another state_dir"
                )
            time.sleep(PAUSE)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads(self._path.read_text()) if self._path.exists() else {}
            if unknown := found.keys() - {*PARTS, CHECKSUM}:
                raise ValueError(f"{min(unknown)!r} is none of its parts")
            parts: dict[str, dict[str, Any]] = {part: dict(found.get(part, {})) for part in PARTS}
            recorded = found.get(CHECKSUM)  # 0.1 wrote none
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreError(str(self._path), f"is damaged, put back a copy or remove it: {error}") from None
        if recorded is not None and recorded != _checksum(parts):
            remedy = f"put back a copy; if you have changed it yourself, remove the line {CHECKSUM!r}"
            raise StoreError(str(self._path), f"is damaged: it is not what was written; {remedy}")
        return parts


def _checksum(parts: dict[str, dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def write_private(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_path(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise StoreError(str(path), error.strerror or str(error)) from None
