"""The engines by name, and the options each takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ray_pubsub.engines.contract import Engine
from ray_pubsub.engines.dexin import DexinSegment
from ray_pubsub.engines.gem import GemSegment
from ray_pubsub.engines.opindex import OpIndexSegment
from ray_pubsub.engines.rein import ReinSegment
from ray_pubsub.engines.scan import ScanEngine
from ray_pubsub.engines.segments import build_segment
from ray_pubsub.errors import SettingError
from ray_pubsub.index.live import LiveIndex
from ray_pubsub.settings import Limits

__all__ = ["ENGINES", "OPTIONS", "make_engine"]

SEGMENTS: dict[str, tuple[Callable[..., Any], dict[str, type]]] = {
    "auto": (build_segment, {}),
    "dexin": (DexinSegment, {"cache": int, "exclusive_only": bool, "inclusive_only": bool}),
    "gem": (GemSegment, {"cache": int, "tau": int}),
    "opindex": (OpIndexSegment, {"segments": int, "bits": int}),
    "rein": (ReinSegment, {"buckets": int}),
}
"""Name → what makes a segment, and its options. These engines are the live index; they differ in the segments it builds."""
BOUNDS: dict[str, tuple[int, int]] = {
    "cache": (0, 4096),
    "tau": (1, 4096),
    "segments": (1, 4096),
    "bits": (1, 64),
    "buckets": (1, 65_536),
}
ENGINES = (*SEGMENTS, "scan")
OPTIONS = frozenset(option for _, options in SEGMENTS.values() for option in options)
"""Of all engines."""
MERGES = ("inline", "background")


def make_engine(name: str, limits: Limits, merges: str, options: Mapping[str, Any]) -> Engine:
    """The engine; a SettingError says what is wrong with its name or options."""
    if name not in ENGINES:
        raise SettingError("engine", f"there is no engine {name!r}; choose one of {', '.join(map(repr, ENGINES))}")
    if merges not in MERGES:
        raise SettingError("merges", f"must be one of {', '.join(map(repr, MERGES))}, not {merges!r}")
    build, known = SEGMENTS.get(name, (None, {}))
    for option, value in dict[str, Any](options).items():
        if option not in known:
            offered = f"it has {', '.join(known)}" if known else "it has none"
            raise SettingError(option, f"is no option of the engine {name!r}; {offered}")
        least, most = BOUNDS.get(option, (False, True))
        fits = type(value) is known[option]
        if not fits or not least <= int(value) <= most:
            wanted = "True or False" if known[option] is bool else f"a number from {least} to {most:,}"
            raise SettingError(option, f"must be {wanted}, not {value!r}")
    if options.get("exclusive_only") and options.get("inclusive_only"):
        raise SettingError("exclusive_only", "and inclusive_only exclude each other")
    if build is None:
        return ScanEngine()
    return LiveIndex(limits, partial(build, **options) if options else build, background=merges == "background")
