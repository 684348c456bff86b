"""Spark DataFrames in, matches out. The only package that imports pyspark."""
