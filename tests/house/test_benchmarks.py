"""Benchmarks are not run by the tests, but each must be there to be run."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_each_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    names = importlib.import_module("benchmarks.__main__").NAMES
    assert "matching" in names
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        assert module.__doc__ and callable(module.main)
