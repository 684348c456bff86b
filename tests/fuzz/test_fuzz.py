"""A sample of what `make fuzz` runs: only errors of our own tree come out, and every answer is right."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_hostile_input_is_refused_or_harmless(target: Target) -> None:
    for seed in range(2):
        target.run(seed)
