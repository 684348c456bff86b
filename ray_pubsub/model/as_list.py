"""Converts the columns that users give, one by one or in a table, to lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ray_pubsub.errors import SettingError, TableError
from ray_pubsub.model.arrow.arrow_table import as_arrow_table, refuse_repeated

__all__ = ["as_list", "as_lists", "is_table"]


def as_list(name: str, values: Any) -> list[Any]:
    """Returns a list of Python objects. A single text is refused, because it is not a column of its letters."""
    if isinstance(values, str | bytes | Mapping):
        raise SettingError(name, f"must be a list or a column, not one {type(values).__name__}")
    for method in ("to_pylist", "tolist"):  # to_pylist is Arrow's method, tolist that of numpy and pandas
        if hasattr(values, method):
            try:
                return list(getattr(values, method)())
            except UnicodeDecodeError:
                return _decoded(values)
    if not hasattr(values, "__iter__"):
        raise SettingError(name, f"must be a list or a column, not {type(values).__name__}")
    return list(values)


def _decoded(values: Any) -> list[Any]:
    """Decodes Arrow's strings when some are not UTF-8: these get lone surrogates, so that only they are rejected."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    plain = [chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in chunks]
    content = [each for chunk in plain for each in chunk.cast(_binary(chunk.type)).to_pylist()]
    return [None if each is None else each.decode(errors="surrogateescape") for each in content]


def _binary(kind: Any) -> Any:
    return pa.binary_view() if kind == pa.string_view() else pa.large_binary()


def as_lists(**columns: Any) -> list[list[Any]]:
    """Returns several columns as lists, each given by itself under its name in the plural; or all in one table, which is given in place of
    the first.

    >>> as_lists(ids=["a", "b"], expressions=["x = 1", "x = 2"])
    [['a', 'b'], ['x = 1', 'x = 2']]
    """
    (first, table), *others = columns.items()
    if is_table(table) and all(values is None for _, values in others):
        return _of_table(table, [name.removesuffix("s") for name in columns])
    for name, values in others:
        if values is None:
            wanted = ", ".join(each.removesuffix("s") for each in columns)
            raise SettingError(name, f"must be given, unless {first} is a table with the columns {wanted}")
    lists = [as_list(name, values) for name, values in columns.items()]
    if len({len(each) for each in lists}) > 1:
        counts = " and ".join(f"{len(each):,} {name}" for each, name in zip(lists, columns, strict=True))
        raise SettingError(first, f"the columns must be of one length, not {counts}")
    return lists


def is_table(given: Any) -> bool:
    """Returns whether this is a pyarrow Table or RecordBatch, or a pandas DataFrame."""
    module = type(given).__module__.partition(".")[0]
    return (module == "pyarrow" and hasattr(given, "column_names")) or (
        module == "pandas" and hasattr(given, "columns")
    )


def _of_table(table: Any, names: list[str]) -> list[list[Any]]:
    """Returns the columns of a table. Objects in pandas' columns are kept as they are, so that ids of str and int may be in one column."""
    if type(table).__module__.partition(".")[0] == "pandas":
        refuse_repeated(table.columns)
        found = {name: table[name] for name in names if name in table.columns}
    else:
        arrow = as_arrow_table(table, "subscriptions")
        found = {name: arrow.column(name) for name in names if name in arrow.column_names}
    for name in names:
        if name not in found:
            raise TableError(name, f"missing; the table must have the columns {', '.join(names)}")
    return [as_list(name, found[name]) for name in names]
