"""Reads and writes files of subscriptions and events: CSV, JSON lines and Parquet, by the file's ending; - is JSON lines from stdin."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ray_pubsub.errors import SettingError, TableError

if TYPE_CHECKING:
    from ray_pubsub import StoredSubscription

__all__ = [
    "STDIN", "check_input", "check_output", "ending", "event_batches", "flat_row", "json_chunks", "read_subscriptions", "read_table",
    "stored_row", "write_rows",
]  # fmt: skip

STDIN = "-"
CHUNK = 8 << 20
"""The bytes of JSON lines that are matched at once."""
ROWS = 65_536
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
TEXTS = ("expression", "subscriber", "attribute", "level", "data", "tags")
"""The columns of subscriptions that are always texts. An id that looks like a number becomes a number."""
INTERVALS = {"id", "attribute"}


def ending(path: str) -> str:
    """Returns csv, jsonl or parquet. Raises SettingError."""
    found = {
        ".csv": "csv",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".json": "jsonl",
        ".parquet": "parquet",
        ".pq": "parquet",
    }
    if path == STDIN:
        return "jsonl"
    kind = found.get(Path(path).suffix.lower())
    if kind is None:
        raise SettingError("file", f"{path} must end in .csv, .jsonl or .parquet, or be - for JSON lines from stdin")
    return kind


def check_input(path: str) -> None:
    """Raises SettingError for a file that certainly cannot be read, before other files and servers are asked."""
    ending(path)
    if path != STDIN:
        try:
            Path(path).stat()
        except OSError as error:
            raise SettingError("file", f"{path} cannot be read: {_why(error)}") from error


def check_output(path: str) -> None:
    """Raises SettingError for a file that certainly cannot be written, before anything is computed for it."""
    ending(path)
    if path != STDIN and not Path(path).absolute().parent.is_dir():
        raise SettingError("file", f"{path} cannot be written: its folder does not exist")


def _why(error: OSError) -> str:
    """Returns the system's words. Arrow's errors have the path in theirs, a second time."""
    return str(error) if error.errno is None else os.strerror(error.errno)


def read_table(path: str, texts: tuple[str, ...] = TEXTS) -> Any:
    """Reads a whole file, CSV or Parquet, as a pyarrow Table. Raises SettingError and TableError. `texts` are the columns that are texts in
    CSV."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    kind = ending(path)
    try:
        if kind == "parquet":
            return pyarrow.parquet.read_table(path)
        return pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            # An empty cell is an absent value; an empty text is written in quotes.
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(texts, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except OSError as error:
        raise SettingError("file", f"{path} cannot be read: {_why(error)}") from error
    except pa.ArrowException as error:
        raise TableError(None, f"{path} is not {kind}: {error}") from error


def read_subscriptions(path: str) -> Any:
    """Reads a table with id and expression, or with a row per interval: id, attribute, low, high. Raises TableError."""
    kind = ending(path)
    table = _described_lines(path) if kind == "jsonl" else read_table(path)
    if kind == "csv" and _guessed_times(table):
        table = read_table(path, texts=("id", *TEXTS))
    names = set(table.schema.names)
    if "expression" not in names and not names >= INTERVALS:
        raise TableError(
            "expression",
            f"{path} has none; a file of subscriptions has the columns id and expression, not {sorted(names)}",
        )
    if "id" not in names:
        import pyarrow as pa

        # Lines are numbered from 1, as in editors.
        table = table.append_column("id", pa.array(range(1, table.num_rows + 1)))
    return table


def _guessed_times(table: Any) -> list[str]:
    """Returns the columns of ids and texts that Arrow has read as times, because each of them looks like one: the id 2024-01-01."""
    import pyarrow as pa

    names = ("id", *TEXTS)
    return [each.name for each in table.schema if each.name in names and pa.types.is_temporal(each.type)]


def _described_lines(path: str) -> Any:
    """Reads JSON lines whose subscriptions may have data, which is any JSON; Arrow alone would require a single type."""
    import pyarrow as pa
    import pyarrow.json

    try:
        content = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        if b'"data"' not in content:
            table = pyarrow.json.read_json(pa.BufferReader(content))
            guessed = _guessed_times(table)
            if not guessed:
                return table
            options = pyarrow.json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in guessed]))
            return pyarrow.json.read_json(pa.BufferReader(content), parse_options=options)
        rows = [json.loads(line) for line in content.splitlines() if line.strip()]
        columns = {
            name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)
        }
        if "data" in columns:
            columns["data"] = [None if value is None else json.dumps(value) for value in columns["data"]]
        return pa.table(columns)
    except OSError as error:
        raise SettingError("file", f"{path} cannot be read: {_why(error)}") from error
    except (ValueError, AttributeError, TypeError, RecursionError, pa.ArrowException) as error:
        raise TableError(None, f"{path} is not jsonl: {error}") from error


def stored_row(found: StoredSubscription) -> dict[str, Any]:
    """Returns a subscription of a server as a row for JSON lines."""
    row = {"id": found.id, "subscriber": found.subscriber, "expression": found.expression}
    carried = {"data": found.data, "tags": list(found.tags) or None}
    return {**row, **{name: value for name, value in carried.items() if value is not None}}


def flat_row(found: StoredSubscription) -> dict[str, Any]:
    """Returns the same for a table: data as JSON, tags separated by commas."""
    data = None if found.data is None else json.dumps(found.data, ensure_ascii=False)
    return {**stored_row(found), "data": data, "tags": ",".join(found.tags) or None}


def event_batches(path: str) -> Iterator[Any]:
    """Yields bytes with a document per line, or pyarrow record batches. Raises SettingError and TableError."""
    if ending(path) == "jsonl":
        if path == STDIN:
            yield from _no_list("the input", json_chunks(sys.stdin.buffer))
        else:
            try:
                with Path(path).open("rb") as file:
                    yield from _no_list(path, json_chunks(file))
            except OSError as error:
                raise SettingError("file", f"{path} cannot be read: {_why(error)}") from error
        return
    table = read_table(path)
    if ending(path) == "csv":
        _warn_of_texts_among_numbers(path, table)
    yield from table.to_batches(max_chunksize=ROWS)


def _warn_of_texts_among_numbers(path: str, table: Any) -> None:
    """One cell that is no number makes its whole column texts, which no comparison with a number holds of."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        if not pa.types.is_string(kind):
            continue
        numbers = pc.match_substring_regex(table[name], NUMBER)
        found = pc.sum(numbers).as_py() or 0
        if 0 < found < len(numbers) - numbers.null_count <= 2 * found:
            row = pc.index(numbers, False).as_py()
            text = table[name][row].as_py()
            reason = f"so all values of this column are read as texts, its {found:,} numbers too"
            warnings.warn(f"{path}: {name!r} is {text[:40]!r} in event {row}, {reason}", stacklevel=2)


def _no_list(path: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the chunks. Raises TableError for what is a single JSON list, whose lines are no events."""
    for number, chunk in enumerate(chunks):
        text = chunk.strip()
        if number == 0 and text.startswith(b"[") and (text.endswith(b"]") or text.partition(b"\n")[0].strip() == b"["):
            raise TableError(None, f"{path} is a JSON list; write an event in each line, as jq -c '.[]' does")
        yield chunk


def json_chunks(source: BinaryIO) -> Iterator[bytes]:
    """Yields whole lines, as many as are available at the moment: lines that come through a pipe are not held back until there are more."""
    rest, number = b"", source.fileno()
    while read := os.read(number, CHUNK):
        lines, newline, rest = (rest + read).rpartition(b"\n")
        if newline and lines.strip():
            yield lines
    if rest.strip():
        yield rest


def write_rows(path: str, rows: Iterable[dict[str, Any]], columns: tuple[str, ...]) -> int:
    """Writes a file of the kind that its ending names. Returns the number of rows. Raises SettingError."""
    kind = ending(path)
    try:
        if kind == "jsonl":
            count = 0
            with Path(path).open("w") if path != STDIN else os.fdopen(os.dup(1), "w") as file:
                for row in rows:
                    file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
                    count += 1
            return count
        return _write_table(path, kind, list(rows), columns)
    except OSError as error:
        raise SettingError("file", f"{path} cannot be written: {_why(error)}") from error


def _write_table(path: str, kind: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> int:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if kind == "csv":  # in CSV every cell is a text
        rows = [{name: value if value is None else str(value) for name, value in row.items()} for row in rows]
    try:
        table = pa.table({name: [row[name] for row in rows] for name in columns})
    except pa.ArrowException:
        raise SettingError(
            "file", "ids are numbers and texts, which a column of Parquet cannot hold; write .jsonl"
        ) from None
    if kind == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    return len(rows)
