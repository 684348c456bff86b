"""The table of experiments is complete, points are measured and checked, a run goes on where it stopped, and pictures carry their data."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.figures import measuring, running
from benchmarks.figures.claims import PAPERS
from benchmarks.figures.claims.checks import Below, Beside, Check, Least, Ratio, Refused, StatedRate, Trend
from benchmarks.figures.document import BEGIN, END, _last_values, _sweep, generated
from benchmarks.figures.drawing import STYLES, draw
from benchmarks.figures.findings import FINDINGS
from benchmarks.figures.measuring import check, measure_point
from benchmarks.figures.pictures import PICTURES, TABLES
from benchmarks.figures.planning import PLANNING, measure_planning
from benchmarks.figures.priority import PRIORITY, measure_priority
from benchmarks.figures.results_file import ResultsFile
from benchmarks.figures.summary import write_summary
from benchmarks.figures.sweeps import SCALES, SERIES, SWEEPS, Scale
from benchmarks.figures.tables import table_lines, write_table
from benchmarks.figures.taken import taken
from ray_pubsub import MatchIndex

TINY = Scale("tiny", 2000, 3, 1, 3, 4, 2, 5)


def test_every_figure_and_table_of_the_papers_is_there() -> None:
    names = {re.sub(r"(\d)[a-f]$", r"\1", name) for name in (*PICTURES, *TABLES)}
    wanted = {f"dexin-{number}" for number in range(2, 18)}
    wanted |= {f"gem-{number}" for number in range(4, 12)}
    wanted |= {f"rein-{number}" for number in range(7, 15)} | {f"rein-table-{number}" for number in range(3, 8)}
    wanted |= {f"opindex-{number}" for number in (1, *range(7, 15))}
    wanted |= {"priority-5", "priority-6", "priority-table-2", "priority-table-3"}
    assert wanted - names == set()


def test_sweeps_series_and_styles_exist() -> None:
    known = {*SWEEPS, *PLANNING, *PRIORITY}
    assert {each.sweep for each in PICTURES.values()} | {each.sweep for each in TABLES.values()} == known
    assert {series for sweep in SWEEPS.values() for series in sweep.series} <= SERIES.keys()
    assert SERIES.keys() <= STYLES.keys()
    for sweep in SWEEPS.values():
        for scale in SCALES.values():
            xs = [point.x for _, point in sweep.chosen(scale)]
            assert (sweep.every_point or len(xs) <= scale.points) and xs[-1] == sweep.points(scale)[-1].x
            assert xs == sorted(xs) and len(set(xs)) == len(xs), sweep.name


def test_a_point_is_measured_and_checked() -> None:
    (row,) = measure_point("rein-n", 4, TINY, ["rein"])
    assert (row["status"], row["subscriptions"], row["x"], row["events"]) == ("ok", 4000, 4000, 100)
    assert row["mean_ms"] > 0 and row["bytes"] > 0 and row["insert_us"] > 0 and row["delete_us"] > 0
    assert row["false_positives"] == 0 and len(row["each_event"].split()) == 100


def test_a_wrong_engine_is_noticed() -> None:
    index = MatchIndex()
    index.add("x", "a = 1")
    index.add(7, "a >= 1")
    missing, extra = [np.array([7, 8])], [np.empty(0, np.int64)]
    with pytest.raises(AssertionError, match="a match is missing"):
        check(index, [{"a": 2}], missing, exact=False)
    with pytest.raises(AssertionError, match="too many"):
        check(index, [{"a": 2}], extra, exact=True)
    assert check(index, [{"a": 2}], extra, exact=False) == (1, 0)


def test_the_optimal_plan_costs_no_more_than_the_greedy_one() -> None:
    rows = {row["series"]: row for row in measure_planning("dexin-planning", 1, TINY)}
    assert rows["optimal"]["value"] <= rows["greedy"]["value"] + 1e-9
    assert rows["optimal, with deciding"]["mean_ms"] >= rows["optimal"]["mean_ms"]


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a point, without measuring a series twice; and with more points than before."""
    measured: list[tuple[int, str]] = []

    def rows_of(task: running.Task) -> Iterator[dict[str, Any]]:
        for series in task.wanted:
            if len(measured) == 7:
                raise KeyboardInterrupt
            measured.append((task.place, series))
            yield {"sweep": task.sweep, "place": task.place, "x": task.place, "status": "ok", "series": series}

    monkeypatch.setattr(running, "rows_of", rows_of)
    monkeypatch.setattr(running, "draw", lambda *given: None)
    monkeypatch.setattr(running, "register", lambda: None)
    few = TINY._replace(points=3)
    with pytest.raises(KeyboardInterrupt):
        running.run(few, ["dexin-17"], tmp_path, 1)
    measured.append((-1, "interrupted"))
    running.run(few, ["dexin-17"], tmp_path, 1)
    running.run(TINY, ["dexin-17"], tmp_path, 1)
    series = SWEEPS["dexin-methods"].series
    assert [each for each in measured if each[0] >= 0] == [
        (place, name) for place in (0, 2, 4, 1, 3) for name in series
    ]
    again = ResultsFile(tmp_path / "data" / "dexin-methods.csv", "tiny")
    assert len(again.rows) == 5 * 5
    assert {"scale", "seed", "processor", "versions"} <= again.notes.keys()
    assert ResultsFile(tmp_path / "data" / "dexin-methods.csv", "small").rows == []


def test_pictures_and_tables(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "rein-n.csv", "tiny")
    for place in range(3):
        shared = {"sweep": "rein-n", "place": place, "x": place + 1, "status": "ok", "each_event": "3:0.5 4:0.25"}
        results.append(
            [shared | {"series": "rein", "mean_ms": 0.5 + place, "std_ms": 0.1, "max_ms": 2, "min_ms": 0.25}]
        )
        results.append([shared | {"series": "h-tree", "status": "too large"}])
    for name in ("rein-7", "rein-10"):
        draw(PICTURES[name], "subscriptions n", results, tmp_path)
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
        assert "seed: 1" in (tmp_path / f"{name}.svg").read_text()
    write_summary({"rein-n": results}, tmp_path)
    assert "- rein: 0.5 → 2.5 (+1.46)\n- too large at some points: h-tree" in (tmp_path / "summary.md").read_text()
    write_table(TABLES["rein-table-3"], "subscriptions n", results, tmp_path)
    text = (tmp_path / "rein-table-3.md").read_text()
    assert "| 1 | 2 | 0.250 | 0.100 | too large | too large | too large |" in text


def table_of(tmp_path: Path, name: str, rows: list[dict[str, Any]]) -> str:
    results = ResultsFile(tmp_path / "data.csv", "tiny")
    results.append([{"place": 0, "x": 1000, "status": "ok", "subscriptions": 1000} | row for row in rows])
    return "\n".join(table_lines(TABLES[name], "x", results))


def test_the_priority_tables_have_the_papers_columns(tmp_path: Path) -> None:
    rows = [
        {"series": "SI, filters", "mean_ms": 0.0001279, "std_ms": 2e-6},
        {"series": "SF", "mean_ms": 0.0251, "std_ms": 0.0029},
    ]
    text = table_of(tmp_path, "priority-table-2a", rows)
    assert "SI, filters: mean" in text and "| 1,000 | 0.128 | 0.002 |  |  | 25.100 | 2.900 |" in text
    counts = {"matched": 3000, "unmatched": 7000, "found": 3070, "rate": 0.01, "false_positives": 75}
    text = table_of(tmp_path / "3", "priority-table-3", [{"series": "SI, filters"} | counts])
    assert "| matched | unmatched | SI result | measured rate |" in text
    assert "| 1,000 | 3,000 | 7,000 | 3,070 | 0.010 | 75 |  |  |" in text


def test_memory_is_compared_with_the_papers_formulas(tmp_path: Path) -> None:
    text = table_of(tmp_path, "rein-table-7", [{"series": "rein", "bytes": 300_000}])
    assert "SIENA, formula | TAMA, formula | H-Tree, formula | REIN, formula" in text
    assert "| 1,000 | 164 | 1,715 | 3,289 | 168 |  |  |  | 300 |" in text


def test_the_measured_rate_is_of_events_that_match_no_rule() -> None:
    rows = {row["series"]: row for row in measure_priority("priority-false-positives", 6, TINY)}
    found, exact = rows["SI, filters"], rows["SI, confirmed"]
    assert found["matched"] + found["unmatched"] == found["checked"] == 10_000
    assert found["rate"] == (found["found"] - found["matched"]) / found["unmatched"] > exact["rate"] == 0
    assert exact["found"] == exact["matched"] and found["found"] >= found["matched"]


def test_points_for_which_there_is_no_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "free_bytes", lambda: 1000.0)
    (row,) = measure_point("opindex-n", 0, TINY, ["rein"])
    assert row["status"] == "no memory" and "are free" in row["note"]


def test_the_seconds_of_all_points_are_added_up(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "data.csv", "tiny")
    results.append([{"place": 0, "cpu_s": 90.0, "wall_s": 100.0}, {"place": 0, "cpu_s": 10.0, "wall_s": 30.0}])
    results.append([{"place": 0, "series": "rein"}, {"place": 1, "cpu_s": 3.0, "wall_s": 4.0}])
    text = "2 points, 103 s of processor time: 52 s on 2 cores that are free, 67 s elapsed on this machine with 2 processes"
    assert taken([results]) == text
    assert taken([results], 1) == "2 points, 103 s of processor time, 134 s elapsed on this machine"


def test_texts_of_a_workload_are_its_subscriptions() -> None:
    made = SWEEPS["gem-n"].points(TINY)[1].make()
    index, other = MatchIndex("rein"), MatchIndex("scan")
    index.add_predicates(made.predicates())  # type: ignore[union-attr]
    texts = measuring.texts_of(made, 50)
    other.add_many(range(50), texts)
    for event in made.event_dicts():  # type: ignore[union-attr]
        assert sorted(other.match(event)) == sorted(number for number in index.match(event) if int(number) < 50)


def filled(path: Path, curves: dict[str, list[float]]) -> ResultsFile:
    results = ResultsFile(path, "tiny")
    for series, values in curves.items():
        for place, value in enumerate(values):
            shared = {"sweep": path.stem, "place": place, "x": place + 1, "status": "ok", "subscriptions": 5}
            results.append([shared | {"series": series, "mean_ms": value}])
    return results


def test_claims_are_decided_by_the_results(tmp_path: Path) -> None:
    results = filled(tmp_path / "data.csv", {"rein": [1.0, 1.1], "tama": [2.0, 4.2], "siena": [8.0, 2.0]})
    results.append([{"place": 2, "x": 3, "series": "siena", "status": "too large"}])

    def agrees(check: Check) -> str:
        return check.outcome(results, "mean_ms").agrees

    assert [agrees(Trend(name, "flat")) for name in ("rein", "tama", "siena", "gem")] == ["yes", "no", "no", ""]
    assert [agrees(Trend("tama", "grows")), agrees(Trend("siena", "falls"))] == ["yes", "yes"]
    assert [agrees(Ratio("tama", "rein", paper)) for paper in (3.0, 30.0, 0.3)] == ["yes", "in direction", "no"]
    assert agrees(Ratio("siena", "rein", 1.8, last=True)) == "yes"
    assert [agrees(Ratio("tama", "rein", paper)) for paper in ("more", "less", 1.0)] == ["yes", "no", "no"]
    assert agrees(Least("rein", ("rein", "tama"))) == "yes"
    assert Least("tama", ("rein", "tama")).outcome(results, "mean_ms")[2:] == ("rein (tama: 3.82 ×)", "no")  # noqa: RUF001
    results.append([{"place": 3, "x": 0.1, "series": "SI", "status": "ok", "rate": 0.11, "matched": 5, "found": 6}])
    assert agrees(StatedRate("SI")) == "yes"
    results.append([{"place": 4, "x": 0.2, "series": "SI", "status": "ok", "rate": 0.1, "matched": 5, "found": 4}])
    assert agrees(StatedRate("SI")) == "no", "a false negative"
    assert [agrees(Below("tama", "mean_ms", bound, "0")) for bound in (5.0, 4.0)] == ["yes", "no"]
    filled(tmp_path / "other.csv", {"tama": [1.0, 3.0]})
    assert [agrees(Beside("tama", "other", paper)) for paper in (1.5, 3.0, 0.2)] == ["yes", "in direction", "no"]
    assert [agrees(Refused("siena")), agrees(Refused("rein"))] == ["yes", "no"]


def test_a_series_that_was_refused_is_not_taken_for_one_at_the_last_point(tmp_path: Path) -> None:
    results = filled(tmp_path / "data.csv", {"rein": [1.0, 2.0, 8.0], "tama": [3.0, 6.0, 9.0], "h-tree": [2.0]})
    outcome = Ratio("h-tree", "rein", 2.0, last=True).outcome(results, "mean_ms")
    assert outcome[2:] == ("2.00 × (at 1)", "yes")  # noqa: RUF001
    assert Ratio("tama", "rein", 1.1, last=True).outcome(results, "mean_ms").here == "1.12 ×"  # noqa: RUF001
    assert Least("rein", ("rein", "tama", "h-tree")).outcome(results, "mean_ms").agrees == "yes"
    shown = _last_values(PICTURES["dexin-2"], results)
    assert shown == "Here, ms an event, at 3: h-tree 2 (at 1), rein 8, tama 9."


def test_every_figure_has_a_claim_about_series_that_it_shows() -> None:
    claimed = [claim for claims in PAPERS.values() for claim in claims]
    assert sorted(claim.name for claim in claimed) == sorted([*PICTURES, *TABLES])
    for claim in claimed:
        sweep = SWEEPS.get(_sweep(claim.name))
        for each in claim.checks if sweep else ():
            named = {getattr(each, part, None) for part in ("series", "first", "second")} | set(
                getattr(each, "among", ())
            )
            assert named - {None} <= set(sweep.series), (claim.name, each)  # type: ignore[union-attr]


def test_what_was_measured_at_the_papers_sizes_is_shown_beside_the_rest(tmp_path: Path) -> None:
    docs = Path(__file__).parents[3] / "docs" / "experiments"
    shutil.copytree(docs / "data", tmp_path / "data")
    without = generated(tmp_path, "small")
    assert "sizes" not in without.partition("### DEXIN Fig. 17")[2].partition("###")[0]
    (tmp_path / "paper" / "data").mkdir(parents=True)
    path = tmp_path / "paper" / "data" / "dexin-methods.csv"
    results = ResultsFile(path, "paper")
    shared = {"sweep": "dexin-methods", "status": "ok", "subscriptions": 1_000_000, "events": 20}
    curves = {"dexin, published": (3.0, 3.1), "dexin, exclusive only": (9.0, 4.0), "dexin, inclusive only": (4.0, 3.5)}
    for series, times in curves.items():
        results.append(
            shared | {"series": series, "place": place, "x": x, "mean_ms": took}
            for place, x, took in zip((0, 4), (0.001, 0.2), times, strict=True)
        )
    text = generated(tmp_path, "small")
    assert "Measured at the papers' own sizes as well: 1 of" in text and "4 checks 3 agree there" in text
    section = text.partition("### DEXIN Fig. 17")[2].partition("###")[0]
    assert "(experiments/paper/dexin-17.png)" in section and "Measured with 1,000,000 subscriptions" in section
    assert "| the paper | here | agree? | at the paper's sizes | agree? |" in section
    assert re.search(r"\| dexin, exclusive only \| falls \| .* \| falls \(0\.44 .\) \| yes \|", section)
    assert re.search(r"\| dexin, inclusive only \| grows \| .* \| flat \(0\.88 .\) \| no \|", section)
    assert len(text) > len(without)


def test_the_document_says_what_the_data_show(tmp_path: Path) -> None:
    """The kept document is the one that its data give, so that no number in it is typed."""
    docs = Path(__file__).parents[3] / "docs"
    text = (docs / "experiments.md").read_text()
    kept = text.partition(BEGIN)[2].partition(END)[0].strip()
    shutil.copytree(docs / "experiments" / "data", tmp_path / "data")
    shutil.copytree(docs / "experiments" / "paper" / "data", tmp_path / "paper" / "data")
    assert kept == generated(tmp_path, "small").strip()
    files = {path.stem: ResultsFile(path, "small") for path in (tmp_path / "data").glob("*.csv")}
    assert all(finding(files).holds for finding in FINDINGS)
