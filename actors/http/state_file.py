"""The state that survives the HTTP process: webhooks and tokens, in one small file that only its user can read."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from ray_pubsub.errors import StoreError

__all__ = ["StateFile"]

NAME = "http.json"
ADMIN = "admin-token"
PARTS = ("webhooks", "tokens")


class StateFile:
    """The file is written as a whole and renamed, so that it is always complete. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / NAME
        self._lock = threading.Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = self._path.read_text() if self._path.exists() else "{}"
            found = json.loads(text)
            self._parts: dict[str, dict[str, Any]] = {part: dict(found.get(part, {})) for part in PARTS}
        except OSError as error:
            raise StoreError(str(self._path), error.strerror or str(error)) from None
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreError(str(self._path), f"is damaged, put back a copy or remove it: {error}") from None

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
                write_private(self._path, json.dumps({**self._parts, part: changed}, indent=1))
                self._parts[part] = changed
            return found

    def admin_token(self, make: Any) -> tuple[str, Path]:
        """Returns the token of the first admin, which is created once, and the file that holds it."""
        path = self.folder / ADMIN
        if path.exists():
            return path.read_text().strip(), path
        token = str(make())
        write_private(path, token + "\n")
        return token, path


def write_private(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreError(str(path), error.strerror or str(error)) from None
