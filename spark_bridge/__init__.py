"""Spark DataFrames in, matches out. The only package that imports pyspark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_bridge.backtest_result import Backtest
    from spark_bridge.backtesting import backtest
    from spark_bridge.event_schema import EventColumns, event_columns
    from spark_bridge.loading import LoadReport, load_subscriptions
    from spark_bridge.matching import bad_events, match_events

__all__ = [
    "Backtest",
    "EventColumns",
    "LoadReport",
    "backtest",
    "bad_events",
    "event_columns",
    "load_subscriptions",
    "match_events",
]

_MODULES = {
    "Backtest": "backtest_result",
    "backtest": "backtesting",
    "EventColumns": "event_schema",
    "event_columns": "event_schema",
    "LoadReport": "loading",
    "load_subscriptions": "loading",
    "bad_events": "matching",
    "match_events": "matching",
}


def __getattr__(name: str) -> Any:
    """Imported when asked for: Spark starts a Python process for every little thing, and most need one module of this package."""
    if name in _MODULES:
        return getattr(import_module(f"spark_bridge.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
