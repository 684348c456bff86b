"""The papers' tables in Markdown, for a file of their own and for the document."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures.pictures import FORMULA, FORMULAS, Column, TableOf
from benchmarks.figures.results_file import ResultsFile

__all__ = ["table_lines", "write_table"]


def write_table(table: TableOf, x: str, results: ResultsFile, folder: Path) -> None:
    """Writes NAME.md."""
    lines = [f"# {table.title}", "", *table_lines(table, x, results), ""]
    lines += [f"- {name}: {text}" for name, text in results.notes.items()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{table.name}.md").write_text("\n".join(lines) + "\n")


def table_lines(table: TableOf, x: str, results: ResultsFile) -> list[str]:
    """Returns the table and its notes."""
    columns = table.columns or _columns(table, results)
    by_place: dict[int, dict[str, dict[str, str]]] = {}
    for row in results.rows:
        by_place.setdefault(int(row["place"]), {})[row["series"]] = row
    lines = [f"| {x} | " + " | ".join(column.head for column in columns) + " |", "|" + "---|" * (len(columns) + 1)]
    for _, rows in sorted(by_place.items()):
        first = next(iter(rows.values()))
        shown = [_cell(column, rows, first) for column in columns]
        lines.append(f"| {_plain(first.get('label') or first['x'])} | " + " | ".join(shown) + " |")
    return [*lines, *(part for note in table.notes for part in ("", note))]


def _columns(table: TableOf, results: ResultsFile) -> list[Column]:
    if table.measures == ("matches",):  # the same for all engines
        return [Column(results.series()[0], "matches", "matches")]
    found = []
    for series in results.series():
        for measure in table.measures:
            if any(row["series"] == series and (row.get(measure) or row["status"] != "ok") for row in results.rows):
                name = measure.removesuffix("_ms")
                found.append(Column(series, measure, f"{series} {name}" if len(table.measures) > 1 else series))
    return found


def _cell(column: Column, rows: dict[str, dict[str, str]], first: dict[str, str]) -> str:
    size = float(first.get("subscriptions") or 0)
    if column.series == FORMULA:
        return _plain(f"{FORMULAS[column.measure](size) / size:.0f}") if size else ""
    row = rows.get(column.series, {})
    value = row.get(column.measure)
    if not value:
        return row.get("status", "").replace("ok", "")
    number = float(value) * column.factor
    return f"{number / size:,.0f}" if column.of_each and size else _plain(f"{number:.6g}")


def _plain(cell: str) -> str:
    try:
        value = float(cell)
    except ValueError:
        return cell
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
