"""Benchmarks are not run by the tests, but each must be there to be run."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_each_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    main = importlib.import_module("benchmarks.__main__")
    assert "matching" in main.NAMES
    for name in main.NAMES:
        module = importlib.import_module(main.module_of(name))
        assert module.__doc__ and callable(module.main)


def test_groups_of_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    for name in importlib.import_module("benchmarks.rules").GROUPS:
        module = importlib.import_module(f"benchmarks.rules.{name}")
        assert module.__doc__ and callable(module.run)
