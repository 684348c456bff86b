"""The search for 10,000 texts in log lines, as a user has it: rules `line like '%text%'`, lines as an Arrow column, ids as the answer."""

from __future__ import annotations

import random

import pyarrow as pa

import ray_pubsub
from benchmarks.rules.logs import event
from benchmarks.rules.report import Report, best_seconds
from benchmarks.rules.sizes import Sizes

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
COMPARED = 200


def run(report: Report, sizes: Sizes) -> None:
    random_ = random.Random(6)
    lines = [" ".join(f"{key}={value}" for key, value in event(random_).items()) for _ in range(sizes.batch)]
    texts: dict[str, None] = {}
    while len(texts) < sizes.literals:
        if random_.random() < 0.05:  # one that occurs
            line = random_.choice(lines)
            start = random_.randrange(len(line) - 12)
            text = line[start : start + random_.randint(6, 12)]
        else:
            text = "".join(random_.choices(LETTERS, k=random_.randint(4, 12)))
        if not set(text) & set("%_'\\"):
            texts[text] = None
    report.step("search: adding patterns")
    index = ray_pubsub.MatchIndex()
    index.add_many(range(len(texts)), [f"line like '%{text}%'" for text in texts])
    table = pa.table({"line": lines})
    report.step("search: matching")
    found = index.match_many(table)
    for place, line in enumerate(lines[:COMPARED]):
        assert sorted(found[place]) == [number for number, text in enumerate(texts) if text in line], (
            f"line {place} differs"
        )
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    rate = megabytes / best_seconds(lambda: index.match_many(table), sizes.rounds)
    report.line(f"{len(texts):,} texts in {megabytes:.1f} MB", rate, "MB/s", must=250, aim=1000)
