"""Pictures and tables of measurements: PNG, SVG and Markdown, each with its provenance in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from benchmarks.figures.pictures import Picture, TableOf
from benchmarks.figures.results_file import ResultsFile

__all__ = ["draw", "write_table"]

# Ours are solid and coloured, the papers' versions of them dashed in the same colour, references grey or pale and dotted.
STYLES: dict[str, tuple[str, str, str]] = {
    "auto": ("#111111", "-", "o"),
    "dexin": ("#d62728", "-", "s"),
    "dexin, published": ("#d62728", "--", "s"),
    "dexin, exclusive only": ("#8c564b", "--", "^"),
    "dexin, inclusive only": ("#e377c2", "--", "v"),
    "gem": ("#2ca02c", "-", "D"),
    "gem, published ω=0": ("#2ca02c", "--", "D"),
    "gem, published ω=10": ("#5fbf5f", "--", "d"),
    "gem, published ω=20": ("#9bd69b", "--", "d"),
    "rein": ("#1f77b4", "-", "^"),
    "opindex": ("#ff7f0e", "-", "v"),
    "opindex, unoptimised": ("#ff7f0e", "--", "v"),
    "siena": ("#7f7f7f", ":", "x"),
    "tama": ("#9467bd", ":", "+"),
    "h-tree": ("#0e8fa0", ":", "1"),
    "be-tree": ("#8f9016", ":", "2"),
    "k-index": ("#c49c94", ":", "3"),
    "sf": ("#555555", "-.", "4"),
    "column scan": ("#000000", "-.", "."),
    "a call alone": ("#bbbbbb", "-.", ""),
    "greedy": ("#d62728", "-", "o"),
    "greedy, with deciding": ("#d62728", "--", "o"),
    "optimal": ("#1f77b4", "-", "s"),
    "optimal, with deciding": ("#1f77b4", "--", "s"),
    "SI, filters": ("#d62728", "-", "o"),
    "SI, confirmed": ("#2ca02c", "-", "s"),
    "SF": ("#555555", "-.", "x"),
}


def draw(picture: Picture, x: str, results: ResultsFile, folder: Path) -> None:
    """Writes NAME.png and NAME.svg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "experiments",
        "font.size": 9,
        "axes.grid": True,
        "grid.alpha": 0.3,
    }
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=(7.2, 4.0), layout="constrained")
        for series in picture.only or results.series():
            colour, line, marker = STYLES.get(series, ("#888888", ":", "."))
            if picture.measure == "each_event":
                _scatter(axes, results, series, colour, marker)
                continue
            places, values = results.values(series, picture.measure)
            if not places:
                continue
            errors = results.values(series, picture.deviation)[1] if picture.deviation else None
            _curve(axes, places, values, errors, label=series, color=colour, linestyle=line, marker=marker)
        for name, value in picture.stated:
            axes.axhline(value, color="#999999", linewidth=0.8, linestyle=(0, (6, 3)))
            axes.annotate(
                f"{name} (stated, Java)",
                (0.01, value),
                xycoords=("axes fraction", "data"),
                fontsize=6.5,
                color="#666666",
                va="bottom",
            )
        axes.set_title(picture.title, loc="left", fontsize=10)
        axes.set_xlabel("matches of the event" if picture.measure == "each_event" else x)
        axes.set_ylabel(picture.unit)
        if "y" in picture.log:
            axes.set_yscale("log")
        if "x" in picture.log or picture.measure == "each_event":
            axes.set_xscale("symlog" if picture.measure == "each_event" else "log")
            if picture.measure == "each_event":
                axes.set_xlim(left=-0.5)
        elif max(axes.get_xlim()) >= 10_000:
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7.5, frameon=False)
        notes = results.notes
        figure.text(
            0.0, -0.02, f"{notes['scale']} scale, seed {notes['seed']}, {notes['processor']}, {notes['versions']}", fontsize=5.5,
            color="#666666", va="top",
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        described = "; ".join(f"{name}: {text}" for name, text in notes.items())
        write_png(figure, folder / f"{picture.name}.png", described)
        figure.savefig(
            folder / f"{picture.name}.svg", bbox_inches="tight", metadata={"Description": described, "Date": None}
        )
        pyplot.close(figure)


def write_png(figure: Any, path: Path, described: str, dpi: int = 90) -> None:
    """With 64 colours, which a chart does not exceed by much: a third of the size."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi, bbox_inches="tight")
    info = PngInfo()
    info.add_itxt("Description", described)
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True, pnginfo=info)


def _curve(axes: Any, x: list[float], y: list[float], errors: list[float] | None, **style: Any) -> None:
    ours = style["linestyle"] == "-"
    style |= {"linewidth": 1.8 if ours else 1.3, "markersize": 4 if ours else 6}
    axes.plot(x, y, **style)
    if errors and len(errors) == len(y):
        # A band that reaches below zero cannot be shown on a logarithmic axis.
        low = [max(value - error, value * 0.2) for value, error in zip(y, errors, strict=True)]
        high = [value + error for value, error in zip(y, errors, strict=True)]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.12 if ours else 0.05, linewidth=0)


def _scatter(axes: Any, results: ResultsFile, series: str, colour: str, marker: str) -> None:
    pairs = [
        part.split(":")
        for row in results.rows
        if row["series"] == series and row.get("each_event")
        for part in row["each_event"].split()
    ]
    if pairs:
        axes.plot(
            [float(matches) for matches, _ in pairs], [float(took) for _, took in pairs], linestyle="", marker=marker,
            markersize=4, color=colour, label=series,
        )  # fmt: skip


def write_table(table: TableOf, x: str, results: ResultsFile, folder: Path) -> None:
    """Writes NAME.md."""
    columns = [(series, measure) for series in results.series() for measure in table.measures]
    if table.measures == ("matches",):  # the same for all engines
        columns = columns[:1]
    named = len(table.measures) > 1
    heads = [f"{series} {measure.removesuffix('_ms')}" if named else series for series, measure in columns]
    if table.measures == ("matches",):
        heads = ["matches"]
    by_place: dict[int, dict[str, Any]] = {}
    for row in results.rows:
        for measure in table.measures:
            cell = row.get(measure) or row["status"].replace("ok", "")
            by_place.setdefault(int(row["place"]), {"x": row.get("label") or row["x"]})[
                f"{row['series']} {measure}"
            ] = cell
    lines = [f"# {table.title}", "", f"| {x} | " + " | ".join(heads) + " |", "|" + "---|" * (len(heads) + 1)]
    for _, cells in sorted(by_place.items()):
        shown = [_plain(cells.get(f"{series} {measure}", "")) for series, measure in columns]
        lines.append(f"| {_plain(cells['x'])} | " + " | ".join(shown) + " |")
    lines += ["", *(f"- {name}: {text}" for name, text in results.notes.items())]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{table.name}.md").write_text("\n".join(lines) + "\n")


def _plain(cell: str) -> str:
    try:
        value = float(cell)
    except ValueError:
        return cell
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
