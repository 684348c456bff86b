"""The Spark bridge: matches events of Spark DataFrames. This is the only package that imports pyspark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_bridge.worker_python import prepare_local_spark

if TYPE_CHECKING:
    from spark_bridge.backtesting.backtest import backtest
    from spark_bridge.backtesting.result import Backtest
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
    "Backtest": "backtesting.result",
    "backtest": "backtesting.backtest",
    "EventColumns": "event_schema",
    "event_columns": "event_schema",
    "LoadReport": "loading",
    "load_subscriptions": "loading",
    "bad_events": "matching",
    "match_events": "matching",
}


prepare_local_spark()


def __getattr__(name: str) -> Any:
    """Imports a module on first use: Spark starts many short-lived Python processes, and most need one module of this package."""
    if name in _MODULES:
        return getattr(import_module(f"spark_bridge.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
