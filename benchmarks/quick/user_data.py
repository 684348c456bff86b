"""A user's own subscriptions and events, from CSV, JSON Lines or Parquet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

__all__ = ["UserDataError", "read_event_file", "read_subscription_file"]


class UserDataError(SystemExit):
    """Said to the user in one line: which file, what is wrong, what is expected."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Texts with ids, or a table of intervals as `MatchIndex.add_predicates` takes it."""

    ids: list[Any]
    texts: list[str]
    intervals: Any | None = None

    def __len__(self) -> int:
        return len(self.ids)


def read_subscription_file(path: Path) -> Subscriptions:
    """Columns id and expression; or id, attribute, low, high; or, in a file of plain lines (.txt, .sql), an expression a line."""
    if path.suffix in (".txt", ".sql"):
        texts = [line.strip() for line in _text(path).splitlines() if line.strip()]
        return Subscriptions(list(range(len(texts))), texts)
    table = pa.Table.from_pylist(_json_lines(path)) if path.suffix in (".jsonl", ".ndjson", ".json") else _table(path)
    names = set(table.column_names)
    if {"attribute", "low", "high", "id"} <= names:
        return Subscriptions(list(dict.fromkeys(table["id"].to_pylist())), [], table)
    if "expression" not in names:
        raise UserDataError(
            f"{path}: has the columns {', '.join(sorted(names))}; expected id and expression, or id, attribute, low and high"
        )
    texts = [str(text) for text in table["expression"].to_pylist()]
    ids = table["id"].to_pylist() if "id" in names else list(range(len(texts)))
    return Subscriptions(ids, texts)


def read_event_file(path: Path) -> Any:
    """Returns a list of dicts (JSON Lines) or an Arrow table (CSV, Parquet)."""
    return _json_lines(path) if path.suffix in (".jsonl", ".ndjson", ".json") else _table(path)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UserDataError(f"{path}: {error.strerror}") from error


def _json_lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UserDataError(f"{path}, line {number}: not JSON ({error}); expected one object a line") from error
            if not isinstance(row, dict):
                raise UserDataError(f"{path}, line {number}: expected an object, not {type(row).__name__}")
            rows.append(row)
    return rows


def _table(path: Path) -> Any:
    if not path.exists():
        raise UserDataError(f"{path}: there is no such file")
    try:
        if path.suffix in (".parquet", ".pq"):
            return pyarrow.parquet.read_table(path)
        if path.suffix == ".csv":
            return pyarrow.csv.read_csv(path)
    except pa.ArrowInvalid as error:
        raise UserDataError(f"{path}: {error}") from error
    raise UserDataError(f"{path}: the ending {path.suffix!r} is not known; use .csv, .jsonl or .parquet")
