"""Measures how fast subscriptions and events are read. Aims: 50,000 conjunctions of 5 predicates a second; 20 million numbers a second."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.rule_texts import detection_rule, rule_of_new_shape, rule_on_rare_attributes
from benchmarks.timing import measure
from ray_pubsub.language.parser import parse
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads.segments import segments

SUBSCRIPTIONS, ROWS, COLUMNS = 50_000, 1_000_000, 10


def conjunction(random_: random.Random) -> str:
    return (
        f"model = 'phone {random_.randrange(100)}' and price <= {random_.randrange(1000)} and "
        f"color in ('red', 'blue', 'c{random_.randrange(9)}') and storage >= {random_.randrange(512)} and "
        f"rating > {random_.uniform(1, 5):.2f}"
    )


def varied_texts(random_: random.Random) -> dict[str, list[str]]:
    """Texts of many shapes."""
    return {
        "audience segments (W4)": list(segments(20_000, 16).texts()),
        "texts of 10 predicates, no two shapes alike": [rule_of_new_shape(random_) for _ in range(5000)],
        "three tests on 3 of 1,000 attributes": [rule_on_rare_attributes(random_) for _ in range(20_000)],
        "detection rules of 3 to 1,000 patterns": [detection_rule(random_) for _ in range(1000)],
    }


def add_all(texts: list[str], engine: str = "auto") -> ray_pubsub.MatchIndex:
    index = ray_pubsub.MatchIndex(engine=engine)
    index.add_many(range(len(texts)), texts, atomic=True)
    return index


def check_against_scan(texts: list[str]) -> None:
    """Checks that texts compiled together mean the same as one by one."""
    alone = ray_pubsub.MatchIndex()
    for number, text in enumerate(texts[:50]):
        alone.add(number, text)
    together, events = add_all(texts), segments(50, 64).event_table()
    wanted = [sorted(ids) for ids in alone.match_many(events)]
    assert [sorted(each for each in ids if each < 50) for ids in together.match_many(events)] == wanted  # type: ignore[operator]


def main(arguments: list[str] | None = None) -> None:
    random_ = random.Random(1)
    texts = [conjunction(random_) for _ in range(SUBSCRIPTIONS)]
    table = Table(title="Ingest, one core", title_justify="left")
    table.add_column("what")
    table.add_column("rate", justify="right")

    def add(engine: str = "scan") -> ray_pubsub.MatchIndex:
        index = ray_pubsub.MatchIndex(engine=engine)
        index.add_many(range(len(texts)), texts, atomic=True)
        return index

    index = add()
    for number in random_.sample(range(SUBSCRIPTIONS), 200):  # the shape cache gives what the grammar gives
        assert index._books.catalogue.source(number).tree_at(number) == parse(texts[number])
    table.add_row("text of 5 predicates, add_many, scan (no index)", measure(add).rate(SUBSCRIPTIONS))
    table.add_row("text of 5 predicates, add_many, auto (indexed)", measure(lambda: add("auto")).rate(SUBSCRIPTIONS))

    for what, varied in varied_texts(random_).items():
        check_against_scan(varied[:1000])
        table.add_row(f"{what}, add_many, auto", measure(partial(add_all, varied)).rate(len(varied)))

    rng = np.random.default_rng(1)
    for kind in (np.int64, np.int32, np.float64):
        columns = {f"a{number}": (rng.random(ROWS) * 1e6).astype(kind) for number in range(COLUMNS)}
        events = pa.table(columns)
        batch = from_arrow(events)
        for row in random_.sample(range(ROWS), 20):
            assert all(lane.plain(row) == columns[lane.attribute][row].item() for lane in batch.lanes)
        table.add_row(f"Arrow {np.dtype(kind)} values", measure(partial(from_arrow, events)).rate(ROWS * COLUMNS))

    words = pa.table({f"a{number}": rng.choice(np.array(["red", "green", "blue"]), ROWS) for number in range(2)})
    table.add_row("Arrow string values, 3 distinct", measure(lambda: from_arrow(words)).rate(2 * ROWS))
    dicts = [{f"a{number}": float(value) for number, value in enumerate(row)} for row in rng.random((20_000, COLUMNS))]
    table.add_row("values of dicts", measure(lambda: from_dicts(dicts)).rate(20_000 * COLUMNS))
    Console(width=120).print(table)
