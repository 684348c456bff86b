"""The figures as a document: per figure the paper's claim, our curve, whether they agree and why. Every number of ours comes from the
results; what is written between the two marks of the document is replaced, the rest of it is left as it is."""

from __future__ import annotations

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
UPDATES = {"DEXIN's data": "dexin-n", "GEM's data": "gem-n", "REIN's data": "rein-n", "OpIndex's data": "opindex-n"}


def write_document(path: Path, folder: Path, scale: str) -> None:
    """Fills the marked part of a document from the results in a folder."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{generated(folder, scale)}\n{END}{after}")


def generated(folder: Path, scale: str) -> str:
    sweeps = dict.fromkeys(_sweep(claim.name) for claims in PAPERS.values() for claim in claims)
    files = {name: ResultsFile(folder / "data" / f"{name}.csv", scale) for name in sweeps}
    lines = [*findings_lines(files), "## How it was measured", ""]
    lines += [*_provenance(files), _tally(files)]
    for paper, claims in PAPERS.items():
        lines += [f"## {paper}", ""]
        for claim in claims:
            lines += _section(claim, files[_sweep(claim.name)])
    return "\n".join([*lines, *_false_positives(files), *_updates(files)])


def _provenance(files: dict[str, ResultsFile]) -> list[str]:
    """Returns where and when the measurements were taken; every different note once."""
    found: dict[str, list[str]] = {}
    for file in files.values():
        for name, text in file.notes.items():
            found.setdefault(name, []).append(text)
    return [
        *(f"- {name}: {'; '.join(dict.fromkeys(texts))}" for name, texts in found.items()),
        f"- measured: {taken(files.values())}",
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


def _section(claim: Claim, results: ResultsFile) -> list[str]:
    if claim.name in TABLES:
        table = TABLES[claim.name]
        title, shown = table.title, table_lines(table, x_of(table.sweep), results)
    else:
        title = PICTURES[claim.name].title
        shown = [f"![{title}](experiments/{claim.name}.png)"]
    lines = [f"### {title}", "", f"The paper: {claim.text}", "", *shown, "", _size(results), ""]
    if claim.name in PICTURES and (curve := _last_values(PICTURES[claim.name], results)):
        lines += [curve, ""]
    if claim.checks:
        lines += ["| | the paper | here | agree? |", "|---|---|---|---|"]
        outcomes = [check.outcome(results, _measure(claim.name)) for check in claim.checks]
        lines += [f"| {each.what} | {each.paper} | {each.here} | {each.agrees} |" for each in outcomes]
        lines.append("")
    if claim.why:
        lines += [f"How we explain it (not measured): {claim.why}", ""]
    return lines


def _last_values(picture: Picture, results: ResultsFile) -> str:
    """Returns all series at the last point, the lowest first."""
    if picture.measure == "each_event":
        return ""
    found = []
    x = 0.0
    for series in picture.only or results.series():
        places, values = results.values(series, picture.measure)
        if values:
            found.append((values[-1], series))
            x = max(x, places[-1])
    shown = ", ".join(f"{series} {value:.3g}" for value, series in sorted(found))
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
