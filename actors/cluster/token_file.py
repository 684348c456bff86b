"""The file with the user's Ray token, which only this user may read: a program with the token runs code as this user.

Ray creates `~/.ray/auth_token` when the first cluster with a token is started, with the modes that the umask leaves: mostly everybody can
read it. So it is created here before Ray looks for it, and one that Ray has created before is tightened.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["TOKEN_VARIABLES", "keep_token_private"]

MODE_VARIABLE = "RAY_AUTH_MODE"
TOKEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""With one of these Ray does not read the user's file, and its owner decides who may read the other."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_token_private(home: Path, environment: Mapping[str, str]) -> bool:
    """Makes the folder `.ray` 0700 and the token in it 0600, and creates both if they are missing and Ray would. Returns whether the token
    was created. Raises OSError."""
    folder, path = home / ".ray", home / ".ray" / "auth_token"
    needed = environment.get(MODE_VARIABLE, "token").lower() == "token"
    if any(environment.get(name) for name in TOKEN_VARIABLES) or not (needed or path.exists()):
        return False
    folder.mkdir(mode=0o700, exist_ok=True)
    for each in (folder, path):
        if each.exists() and each.stat().st_mode & OTHERS:
            each.chmod(each.stat().st_mode & 0o7700)
    return not path.exists() and _created(path)


def _created(path: Path) -> bool:
    """Writes a token under another name first, so that a process that starts at the same time sees a complete one or none."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent)  # 0600, and new
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        Path(draft).unlink()
    return True
