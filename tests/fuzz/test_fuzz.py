"""A sample of what `make fuzz` runs: only errors of our own tree come out, and every answer is right."""

from __future__ import annotations

import pytest

from tests.fuzz.memory import bounded_memory
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_hostile_input_is_refused_or_harmless(target: Target) -> None:
    for seed in range(2):
        with bounded_memory():
            target.run(seed)


def test_input_that_takes_much_memory_is_a_finding() -> None:
    with pytest.raises(MemoryError, match=r"took \d+ MB, and 32 MB are allowed"), bounded_memory(32 << 20):
        b"x" * (64 << 20)
    with bounded_memory(32 << 20):
        b"x" * (8 << 20)
