"""Hypothesis draws the same examples on every run, so that a failure is a failure of the code. What is measured about the machine is kept
with the run, not in the user's home."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("repeatable")

os.environ.setdefault("RAY_PUBSUB_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"ray-pubsub-tests-{os.getuid()}"))
