"""What the tests of the contract share."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk would take most of the time, and nothing crashes here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
