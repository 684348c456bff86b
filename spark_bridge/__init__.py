"""Spark DataFrames in, matches out. The only package that imports pyspark."""

from spark_bridge.backtest_result import Backtest
from spark_bridge.backtesting import backtest
from spark_bridge.event_schema import EventColumns, event_columns

__all__ = ["Backtest", "EventColumns", "backtest", "event_columns"]
