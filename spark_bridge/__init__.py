"""Spark DataFrames in, matches out. The only package that imports pyspark."""

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
