"""GEM: against every test one by one, and the facts of the paper."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.test_records import Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.papers.gem import GemSegment
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests
from ray_pubsub.kernels.papers.triangle_cells import (
    FULL,
    Bounds,
    Predicates,
    RowPlan,
    Shape,
    Triangles,
    cell_index,
    fill_bit_sets,
    fill_cells,
    plan_rows,
)
from ray_pubsub.kernels.papers.triangle_match import partition, partitioning_pays, sort_by_rate
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.values import Kind
from tests.unit.engines.coded_tables import (
    EXPRESSIONS,
    expected,
    matched,
    mixed_events,
    random_events,
    random_table,
    table_of,
)

PAPER = tomllib.loads((Path(__file__).parents[2] / "contract" / "paper_cases.toml").read_text())
FACTS: dict[str, Any] = {fact["name"]: fact for fact in PAPER["fact"]}
CASES: dict[str, Any] = {case["name"]: case for case in PAPER["case"]}

SHAPES = {  # clauses, columns, most tests of a clause, values
    "dense": (700, 4, 4, 1000),
    "sparse": (700, 60, 3, 50),
    "ties": (500, 3, 3, 4),
    "one value": (100, 2, 2, 1),
    "wide": (300, 2000, 8, 30),
}
OPTIONS = [
    {"block": 64, "tau": 8, "cache": 0},
    {"block": 256, "tau": 80, "cache": 3},
    {"block": 100, "tau": 1, "cache": 20},
    {"block": 64, "tau": 7, "cache": 5},
    {"block": 256, "tau": 80, "cache": 10, "paper_costs": True},
    {"block": 256, "tau": 20, "cache": 0, "paper_costs": True, "uniform_rates": True},
    {},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_random_intervals(shape: str, options: dict[str, Any]) -> None:
    count, columns, most, values = SHAPES[shape]
    rng = np.random.default_rng(len(shape))
    table, vocabulary = random_table(rng, count, columns, most, values)
    segment = GemSegment(table, vocabulary, **options)
    for carried in (columns, columns // 2):
        events = random_events(rng, 40, columns, min(carried, 200), values)
        assert matched(segment, events) == expected(segment, events, vocabulary)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sets_kinds_patterns_and_absence(options: dict[str, Any]) -> None:
    rng, vocabulary = np.random.default_rng(1), Vocabulary()
    segment = GemSegment(table_of(EXPRESSIONS * 5, vocabulary), vocabulary, **options)
    events = mixed_events(rng, 150)
    assert matched(segment, events) == expected(segment, events, vocabulary)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_column_tested_twice_must_hold_twice(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    table, vocabulary = random_table(rng, 300, 3, 5, 20, twice=True)
    segment = GemSegment(table, vocabulary, **options)
    events = random_events(rng, 60, 3, 3, 20)
    assert matched(segment, events) == expected(segment, events, vocabulary)


def test_no_clauses_and_no_events() -> None:
    vocabulary = Vocabulary()
    assert matched(GemSegment(ClauseTable.empty(), vocabulary), from_dicts([{"a": 1}])) == [[]]
    assert matched(GemSegment(table_of(["a = 1"], vocabulary), vocabulary), from_dicts([])) == []


def test_many_matches_make_the_output_grow() -> None:
    vocabulary, table = Vocabulary(), ClauseTable.empty()
    column = vocabulary.attributes.number("a")
    for owner in range(5000):
        table.append(owner, [(column, Form.INTERVAL, int(Kind.NUMBER), Side.BEFORE, Side.NONE, owner % 7, 0.0, 0, 0.0)])
    segment = GemSegment(table, vocabulary, block=512)
    assert list(map(len, matched(segment, from_dicts([{"a": 9}] * 20)))) == [5000] * 20


def test_threads_do_not_share_scratch() -> None:
    rng = np.random.default_rng(3)
    table, vocabulary = random_table(rng, 2000, 5, 5, 500)
    segment = GemSegment(table, vocabulary, block=512)
    batches = [random_events(rng, 100, 5, 5, 500) for _ in range(4)]
    alone = [matched(segment, batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(lambda batch: matched(segment, batch), batches)) == alone


def test_memory_follows_the_tests_not_the_columns() -> None:
    rng = np.random.default_rng(4)
    table, vocabulary = random_table(rng, 4000, 2000, 6, 100)
    segment = GemSegment(table, vocabulary)
    assert segment.nbytes < 100 * table.test_count + 40 * 4000


@pytest.mark.parametrize("name", ["gem air quality", "gem air quality with timestamps", "gem empty intervals"])
@pytest.mark.parametrize("cache", [0, 63])
def test_cases_of_the_paper(name: str, cache: int) -> None:
    case, vocabulary = CASES[name], Vocabulary()
    ids = list(case["subscriptions"])
    segment = GemSegment(table_of(list(case["subscriptions"].values()), vocabulary), vocabulary, cache=cache)
    found = matched(segment, from_dicts([item["event"] for item in case["events"]]))
    assert [[ids[number] for number in numbers] for numbers in found] == [item["matches"] for item in case["events"]]


def test_cells_of_the_air_quality_example() -> None:
    fact = FACTS["gem cells of the air quality example"]
    bounds = {"time": (2, 20), "temperature": (25, 30), "pm25": (0, 100)}
    width = {name: largest // fact["tau"] for name, largest in fact["R"].items()}
    cells = {
        name: [cell_index(high, width[name]), cell_index(low, width[name])] for name, (low, high) in bounds.items()
    }
    assert cells == fact["cell"]
    for step in fact["steps"]:
        assert {name: cell_index(value, width[name]) for name, value in step["event"].items()} == step["i"]


WIDTH = 3


def one_triangle(low: list[int], high: list[int], cells: int) -> Predicates:
    """The predicates of one column, in both orders."""
    count, one = len(low), np.array([0])
    order, offsets = np.arange(count, dtype=np.int32), np.arange(count + 1)
    tests = ClauseTests(offsets, np.zeros(count, np.int32), np.array(low, np.int32), np.array(high, np.int32))
    triangles = Triangles(np.array([0, 1]), one, np.array([WIDTH]), np.array([cells]), one, one, one)
    found = []
    for in_columns in (False, True):
        starts = np.zeros(cells * (cells + 1) // 2 + 2, np.uint32)
        found.append(Bounds(starts, np.empty(count, np.uint16), np.empty(count, np.int32)))
        fill_cells(order, count, tests, triangles, in_columns, np.full(1, -1), found[-1])
    return Predicates(*found)


def survivors(code: int, cells: int, edge: int, start: Any, count: int, predicates: Predicates) -> list[int]:
    old = np.zeros(-(-count // 64), np.uint64)
    for clause in range(count):
        old[clause >> 6] |= np.uint64(1 << (clause & 63))
    new = np.full_like(old, 12345)
    # The types the engine's kernel uses, so that nothing is compiled twice.
    partition(predicates, Shape(cells, WIDTH, 0), np.int32(code), np.int32(edge), start, old, new)
    return [clause for clause in range(count) if int(new[clause >> 6]) >> (clause & 63) & 1]


def test_areas_selected_by_a_value() -> None:
    """A and B are always removed, what is untouched never, and the rest by its own bounds."""
    fact = FACTS["gem areas selected by a value"]
    cells = fact["tau"]
    places = [(row, column) for row in range(cells) for column in range(row + 1)]
    assert len(places) == FACTS["gem triangle and cells"]["cells"]
    nothing = np.zeros(1, np.uint64)
    for count in fact["counts"]:
        code = count["i"] * WIDTH + 1
        wide = one_triangle([c * WIDTH for _, c in places], [r * WIDTH + 2 for r, _ in places], cells)
        narrow = one_triangle([c * WIDTH + 2 for _, c in places], [r * WIDTH for r, _ in places], cells)
        edges = count["A_edge"] + count["B_edge"] + count["D"]
        for edge in (FULL, 0, cells):
            kept = survivors(code, cells, edge, nothing, len(places), wide)
            assert len(kept) == len(places) - count["A"] - count["B"] == edges + count["untouched"]
            assert len(survivors(code, cells, edge, nothing, len(places), narrow)) == count["untouched"]


def test_every_start_leads_to_the_same_set() -> None:
    """Algorithm 5 from every cache, and Algorithm 1."""
    rng = np.random.default_rng(5)
    cells, count, untested = 9, 150, 20
    bounds = np.sort(rng.integers(0, cells * WIDTH, (count, 2)), axis=1)
    low, high = bounds[:, 0].tolist(), bounds[:, 1].tolist()
    parts = one_triangle(low, high, cells)
    edges = np.arange(cells)
    bits = np.zeros((cells, -(-(count + untested) // 64)), np.uint64)
    fill_bit_sets(count + untested, cells, edges, parts.rows, 0, bits)
    for code in range(cells * WIDTH):
        right = [n for n in range(count) if low[n] <= code <= high[n]] + list(range(count, count + untested))
        for edge in (FULL, *edges.tolist(), cells):
            start = bits[edge] if 0 <= edge < cells else bits[0]
            assert survivors(code, cells, edge, start, count + untested, parts) == right


def test_caches_split_the_diagonal_and_the_nearest_is_taken() -> None:
    for locations in FACTS["gem caches"]["locations"]:
        omega, cells = locations["omega"], 80
        edges = np.rint(np.arange(omega + 1) * (cells / (omega + 1))).astype(np.int64)
        assert (edges[1:] / cells).tolist() == locations["t"]
        parts = one_triangle(list(range(0, 80 * WIDTH, 2)), [80 * WIDTH - 1] * 40 + [200] * 80, cells)
        plan = RowPlan(*(np.empty(cells, np.int32) for _ in range(4)))
        plan_rows(120, 120, cells, edges, parts.rows, 0, plan)
        for cell in range(cells):
            if plan.start_edge[cell] not in (FULL, 0, cells):
                away = np.abs(edges[1:] - (cell + 0.5))
                assert away[plan.start_set[cell] - 1] == away.min()


def test_decision_examples() -> None:
    for example in FACTS["gem decision examples"]["examples"]:
        rates = np.array(example["rho"])
        order = np.empty(len(rates), np.int64)
        sort_by_rate(rates, order, len(rates))
        assert (order + 1).tolist() == example["order"]
        methods, left, cost = [0], rates[order[0]], 1 - rates[order[0]]
        for dimension in order[1:].tolist():
            pays = methods[-1] == 0 and partitioning_pays(left, 1 - rates[dimension])
            cost += 1 - rates[dimension] if pays else left
            methods.append(0 if pays else 1)
            left *= rates[dimension]
        assert methods == example["d"]
        assert cost == pytest.approx(example["u"])
