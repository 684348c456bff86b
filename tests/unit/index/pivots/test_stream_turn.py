"""Whether a stream has changed: chance alone does not count as a change, nor does a change that matters to nobody."""

from __future__ import annotations

import numpy as np
import pytest

from ray_pubsub.index.pivots.stream_turn import FEWEST, Counted, has_turned

DRAWN = np.random.default_rng(11)
ALWAYS = {f"a{number}": 1.0 for number in range(20)}
SPARSE = {f"s{number}": 0.001 for number in range(10_000)}
OTHERS = {f"o{number}": 0.001 for number in range(10_000)}


def drawn(shares: dict[str, float], events: int) -> Counted:
    counts = DRAWN.binomial(events, list(shares.values()))
    return Counted(events, {name: float(count) for name, count in zip(shares, counts.tolist(), strict=True) if count})


@pytest.mark.parametrize(
    "shares", [ALWAYS, SPARSE, ALWAYS | {"x": 0.5, "y": 0.01} | SPARSE], ids=["always", "sparse", "both"]
)
@pytest.mark.parametrize("known", [FEWEST, 100_000])
def test_chance_is_no_turn(shares: dict[str, float], known: int) -> None:
    assert not any(
        has_turned(drawn(shares, known), drawn(shares, events)) for events in (FEWEST, 4096) for _ in range(8)
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ALWAYS | {"x": 0.5, "y": 0.01}, ALWAYS | {"x": 0.01, "y": 0.5}),
        (SPARSE, OTHERS),  # no attribute's count says anything alone
        (ALWAYS | SPARSE, ALWAYS | OTHERS),
        ({"x": 1.0}, {"y": 1.0}),
    ],
    ids=["exchanged", "thousands", "thousands_beside_others", "one"],
)
def test_a_few_hundred_events_show_a_turn(before: dict[str, float], after: dict[str, float]) -> None:
    assert has_turned(drawn(before, 100_000), drawn(after, FEWEST))


def test_what_matters_to_nobody_is_no_turn() -> None:
    """Certain as it is: one of twenty attributes is missing from an event in two hundred."""
    recent = drawn(ALWAYS | {"a0": 0.995}, 100_000)
    assert not has_turned(drawn(ALWAYS, 100_000), recent)


def test_too_few_events_say_nothing() -> None:
    assert not has_turned(Counted(), Counted(10_000, {"x": 10_000}))
    assert not has_turned(Counted(10_000, {"x": 10_000}), Counted(FEWEST - 1, {"y": FEWEST - 1}))
