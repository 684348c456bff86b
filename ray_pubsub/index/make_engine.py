"""Makes an engine from its name and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray_pubsub.engines.contract import Engine
from ray_pubsub.engines.registry import ENGINES, build_of, check_engine
from ray_pubsub.errors import SettingError
from ray_pubsub.index.pivots.event_frequency import EventFrequency
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.index.starting_engine import StartingEngine
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.settings import Limits

__all__ = ["make_engine"]

MERGES = ("inline", "background")


def make_engine(
    name: str, limits: Limits, merges: str, options: Mapping[str, Any], frequencies: Mapping[str, float] | None = None
) -> Engine:
    """Makes an engine. Raises a SettingError that says what is wrong with the name, the options or `merges`."""
    check_engine(name, options)
    if merges not in MERGES:
        raise SettingError("merges", f"must be one of {', '.join(map(repr, MERGES))}, not {merges!r}")
    whole = ENGINES[name].whole
    if whole is not None:
        return whole()

    def make() -> Engine:
        known = EventFrequency()
        known.expect(frequencies or {})
        build, background = build_of(name, options), merges == "background"
        return SegmentedIndex(limits, build, options=options, background=background, frequency=known)

    return make() if are_ready() else StartingEngine(make)
