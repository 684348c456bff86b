"""The table of engines. A row says everything about an engine.

A row names the segment class, which builds and restores segments; the options with their checks; and the cost formula by which `auto`
compares engines. To add an engine, write the segment (most simply a subclass of engines/papers/coded_segment.py) and add a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ray_pubsub.engines.contract import Build
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.engines.engine_entry import EngineEntry, Flag, Number
from ray_pubsub.engines.papers.dexin import DexinSegment
from ray_pubsub.engines.papers.gem import GemSegment
from ray_pubsub.engines.papers.opindex import OpIndexSegment
from ray_pubsub.engines.papers.rein import ReinSegment
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.engines.scan import ScanEngine
from ray_pubsub.engines.selection import cost_formulas as cost
from ray_pubsub.engines.selection.segment_choice import AutoBuild
from ray_pubsub.errors import SettingError

__all__ = ["ENGINES", "build_of", "check_engine", "engine_names"]

ENGINES: dict[str, EngineEntry] = {}
"""The engines by name. Tests add rows of their own."""

ENGINES |= {
    "auto": EngineEntry(choose=AutoBuild(ENGINES)),
    "dense": EngineEntry(DenseSegment, cost=cost.dense, favoured=True, part_of_auto=True),
    "dexin": EngineEntry(
        DexinSegment,
        options={"cache": Number(0, 4096), "exclusive_only": Flag(), "inclusive_only": Flag(), "paper_costs": Flag()},
        exclusive=("exclusive_only", "inclusive_only"),
        cost=cost.dexin,
    ),
    "gem": EngineEntry(
        GemSegment,
        options={"cache": Number(0, 4096), "tau": Number(1, 4096), "paper_costs": Flag(), "uniform_rates": Flag()},
        cost=cost.gem,
    ),
    "opindex": EngineEntry(
        OpIndexSegment, options={"segments": Number(1, 4096), "bits": Number(1, 64)}, cost=cost.opindex
    ),
    "pivot": EngineEntry(PivotSegment, cost=cost.pivot, prepared=cost.crowded, favoured=True, part_of_auto=True),
    "rein": EngineEntry(ReinSegment, options={"buckets": Number(1, 65_536)}, cost=cost.rein),
    "scan": EngineEntry(whole=ScanEngine),
}


def engine_names() -> tuple[str, ...]:
    """Returns the engines that a user can choose."""
    return tuple(name for name, entry in ENGINES.items() if not entry.part_of_auto)


def check_engine(name: str, options: Mapping[str, Any]) -> None:
    """Raises a SettingError that says what is wrong with an engine's name or with its options."""
    names = engine_names()
    if name not in names:
        raise SettingError("engine", f"there is no engine {name!r}; choose one of {', '.join(map(repr, names))}")
    entry = ENGINES[name]
    for option, value in options.items():
        if option not in entry.options:
            offered = f"it has {', '.join(entry.options)}" if entry.options else "it has none"
            raise SettingError(option, f"is no option of the engine {name!r}; {offered}")
        problem = entry.options[option].problem(value)
        if problem:
            raise SettingError(option, problem)
    chosen = [option for option in entry.exclusive if options.get(option)]
    if len(chosen) > 1:
        raise SettingError(chosen[0], f"and {chosen[1]} exclude each other")


def build_of(name: str, options: Mapping[str, Any]) -> Build:
    """Returns the function that builds an engine's segments."""
    entry = ENGINES[name]
    build: Any = entry.choose or entry.segment
    return partial(build, **options) if options else build
