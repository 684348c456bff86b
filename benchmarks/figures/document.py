"""The figures as a document: per figure the paper's claim, our curve, whether they agree and why. Every number of ours comes from the
results; what is written between the two marks of the document is replaced, the rest of it is left as it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures.claims import PAPERS
from benchmarks.figures.claims.checks import Claim
from benchmarks.figures.findings import findings_lines
from benchmarks.figures.pictures import PICTURES, TABLES, Picture
from benchmarks.figures.results_file import ResultsFile
from benchmarks.figures.running import x_of
from benchmarks.figures.tables import table_lines
from benchmarks.figures.taken import taken

__all__ = ["generated", "write_document"]

BEGIN, END = "<!-- begin: written by python -m benchmarks figures --document -->", "<!-- end -->"
LARGE = "paper"
"""The folder, beside the data, and the scale of measurements at the papers' own sizes. There may be some, of some figures."""
UPDATES = {"DEXIN's data": "dexin-n", "GEM's data": "gem-n", "REIN's data": "rein-n", "OpIndex's data": "opindex-n"}


def write_document(path: Path, folder: Path, scale: str) -> None:
    """Fills the marked part of a document from the results in a folder."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{generated(folder, scale)}\n{END}{after}")


def generated(folder: Path, scale: str) -> str:
    sweeps = dict.fromkeys(_sweep(claim.name) for claims in PAPERS.values() for claim in claims)
    files = {name: ResultsFile(folder / "data" / f"{name}.csv", scale) for name in sweeps}
    large = _large(folder, sweeps)
    lines = [*findings_lines(files), "## How it was measured", ""]
    lines += [*_provenance(files), _tally(files), *_tally_of_large(files, large)]
    for paper, claims in PAPERS.items():
        lines += [f"## {paper}", ""]
        for claim in claims:
            sweep = _sweep(claim.name)
            lines += _section(claim, files[sweep], large.get(sweep))
    return "\n".join([*lines, *_false_positives(files), *_updates(files)])


def _large(folder: Path, sweeps: Iterable[str]) -> dict[str, ResultsFile]:
    """Returns what was measured at the papers' own sizes."""
    paths = {name: folder / LARGE / "data" / f"{name}.csv" for name in sweeps}
    found = {name: ResultsFile(path, LARGE) for name, path in paths.items() if path.exists()}
    return {name: file for name, file in found.items() if file.rows}


def _tally_of_large(files: dict[str, ResultsFile], large: dict[str, ResultsFile]) -> list[str]:
    """How often the papers and the measurements at their own sizes agree, beside the same checks at the small ones."""
    if not large:
        return []
    checked = [
        (check, claim.name)
        for claims in PAPERS.values()
        for claim in claims
        if _sweep(claim.name) in large
        for check in claim.checks
    ]
    counts = [
        [check.outcome(where[_sweep(name)], _measure(name)).agrees for check, name in checked].count("yes")
        for where in (large, files)
    ]
    return [
        f"Measured at the papers' own sizes as well: {len(large)} of {len(files)} sweeps. Of their {len(checked)} checks {counts[0]} "
        f"agree there and {counts[1]} at the small scale. Both are shown below; everything else is of the small scale. Measurements at the "
        f"papers' sizes:",
        "",
        *_provenance(large, processes=1),
    ]


def _provenance(files: dict[str, ResultsFile], processes: int = 2) -> list[str]:
    """Returns where and when the measurements were taken; every different note once."""
    found: dict[str, list[str]] = {}
    for file in files.values():
        for name, text in file.notes.items():
            found.setdefault(name, []).append(text)
    return [
        *(f"- {name}: {'; '.join(dict.fromkeys(texts))}" for name, texts in found.items()),
        f"- measured: {taken(files.values(), processes)}",
        "",
    ]


def _size(results: ResultsFile) -> str:
    """Returns how many subscriptions and events a figure rests on."""
    counts = [sorted({int(row[part]) for row in results.rows if row.get(part)}) for part in ("subscriptions", "events")]
    shown = [f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}" for found in counts if found]
    return f"Measured with {' subscriptions or rules and '.join(shown)} events." if len(shown) == 2 else "Not measured."


def _tally(files: dict[str, ResultsFile]) -> str:
    """How often the papers and the measurements agree."""
    rows = ["| paper | checks | agree | in direction only | disagree |", "|---|---|---|---|---|"]
    for paper, claims in PAPERS.items():
        found = [
            check.outcome(files[_sweep(claim.name)], _measure(claim.name)).agrees
            for claim in claims
            for check in claim.checks
        ]
        counts = [found.count(answer) for answer in ("yes", "in direction", "no")]
        rows.append(f"| {paper} | {sum(counts)} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join([*rows, ""])


def _sweep(name: str) -> str:
    return PICTURES[name].sweep if name in PICTURES else TABLES[name].sweep


def _measure(name: str) -> str:
    return PICTURES[name].measure if name in PICTURES else TABLES[name].measures[0]


def _section(claim: Claim, results: ResultsFile, large: ResultsFile | None) -> list[str]:
    lines = [f"### {_title(claim)}", "", f"The paper: {claim.text}", "", *_shown(claim, results, "experiments")]
    if large is not None:
        lines += ["At the paper's own sizes:", "", *_shown(claim, large, f"experiments/{LARGE}")]
    if claim.checks:
        measured = [results] if large is None else [results, large]
        names = ("here", "agree?", "at the paper's sizes", "agree?")[: 2 * len(measured)]
        lines += ["| | the paper | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
        for check in claim.checks:
            outcomes = [check.outcome(each, _measure(claim.name)) for each in measured]
            cells = [cell for each in outcomes for cell in (each.here, each.agrees)]
            lines.append("| " + " | ".join([outcomes[0].what, outcomes[0].paper, *cells]) + " |")
        lines.append("")
    if claim.why:
        lines += [f"How we explain it (not measured): {claim.why}", ""]
    return lines


def _title(claim: Claim) -> str:
    return TABLES[claim.name].title if claim.name in TABLES else PICTURES[claim.name].title


def _shown(claim: Claim, results: ResultsFile, folder: str) -> list[str]:
    """Returns a figure or table, what it rests on, and the last values of its curves."""
    if claim.name in TABLES:
        table = TABLES[claim.name]
        return [*table_lines(table, x_of(table.sweep), results), "", _size(results), ""]
    lines = [f"![{_title(claim)}]({folder}/{claim.name}.png)", "", _size(results), ""]
    curve = _last_values(PICTURES[claim.name], results)
    return [*lines, curve, ""] if curve else lines


def _last_values(picture: Picture, results: ResultsFile) -> str:
    """Returns all series at the last point, the lowest first; a series that was refused there at its own last point."""
    if picture.measure == "each_event":
        return ""
    found = []
    for series in picture.only or results.series():
        places, values = results.values(series, picture.measure)
        if values:
            found.append((values[-1], series, places[-1]))
    x = max((place for _, _, place in found), default=0.0)
    shown = ", ".join(
        f"{series} {value:.3g}" + (f" (at {place:,.10g})" if place < x else "")
        for value, series, place in sorted(found)
    )
    return f"Here, {picture.unit}, at {x:,.10g}: {shown}." if found else ""


def _false_positives(files: dict[str, ResultsFile]) -> list[str]:
    """TAMA is approximate: what it finds too much, in every sweep that it is in."""
    lines = [
        "## TAMA's false positives", "",
        "TAMA finds every match, and some that are none; all other systems are exact. Of the events that were checked, over all points of "
        "a sweep, and the highest share at one point:", "",
        "| sweep | over | right matches | false positives | share of what it found | highest | at |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, results in files.items():
        rows = [row for row in results.rows if row["series"] == "tama" and row["status"] == "ok"]
        if not rows:
            continue
        pairs = [(float(row["false_positives"]), float(row["checked"])) for row in rows]
        shares = [(wrong / max(1.0, wrong + right), row) for (wrong, right), row in zip(pairs, rows, strict=True)]
        wrong, right = (sum(part) for part in zip(*pairs, strict=True))
        highest, row = max(shares, key=lambda each: each[0])
        at = row.get("label") or f"{float(row['x']):,.6g}"
        share = wrong / max(1.0, wrong + right)
        lines.append(f"| {name} | {x_of(name)} | {right:,.0f} | {wrong:,.0f} | {share:.1%} | {highest:.1%} | {at} |")
    return [*lines, ""]


def _updates(files: dict[str, ResultsFile]) -> list[str]:
    lines = [
        "## Updates", "",
        "One change at a time to the largest index of each sweep, µs of the processor for a subscription: the mean over all changes, "
        "merges and parsing included, its standard deviation, and the worst one.", "",
        "| data | engine | insertion, mean | deviation | worst | deletion, mean | deviation | worst |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, sweep in UPDATES.items():
        results = files[sweep]
        last = max((int(row["place"]) for row in results.rows), default=0)
        for row in results.rows:
            if int(row["place"]) == last and row.get("insert_us"):
                cells = [
                    f"{float(row[f'{change}_{part}us']):,.0f}"
                    for change in ("insert", "delete")
                    for part in ("", "std_", "max_")
                ]
                lines.append(f"| {name}, {int(row['subscriptions']):,} | {row['series']} | " + " | ".join(cells) + " |")
    return [*lines, ""]
