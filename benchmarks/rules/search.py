"""The search for 10,000 texts in log lines, as a user has it: rules `line like '%text%'`, lines as an Arrow column, ids as the answer."""

from __future__ import annotations

import random
from functools import partial

import pyarrow as pa

import ray_pubsub
from benchmarks.rules.logs import event
from benchmarks.rules.report import Report, best_seconds
from benchmarks.rules.sizes import Sizes

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
COMPARED = 200


SHARES = (0.002, 0.01, 0.05)
"""How many of the texts are cut from the lines. With the last, each line contains some thirty texts; then reporting them takes as long as
finding them."""


def run(report: Report, sizes: Sizes) -> None:
    random_ = random.Random(6)
    lines = [" ".join(f"{key}={value}" for key, value in event(random_).items()) for _ in range(sizes.batch)]
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    table = pa.table({"line": lines})
    for share in SHARES:
        texts = _texts(random_, lines, sizes.literals, share)
        report.step("search: adding patterns")
        index = ray_pubsub.MatchIndex()
        index.add_many(range(len(texts)), [f"line like '%{text}%'" for text in texts])
        report.step("search: matching")
        found = index.match_many(table)
        for place, line in enumerate(lines[:COMPARED]):
            expected = [number for number, text in enumerate(texts) if text in line]
            assert sorted(found[place]) == expected, f"line {place} differs"
        matches = sum(len(found[place]) for place in range(len(lines))) / len(lines)
        rate = megabytes / best_seconds(partial(index.match_many, table), sizes.rounds)
        what = f"{len(texts):,} texts in {megabytes:.1f} MB of lines, {matches:.1f} matches a line"
        report.line(what, rate, "MB/s", must=250, aim=1000)


def _texts(random_: random.Random, lines: list[str], count: int, share: float) -> list[str]:
    """Returns distinct texts, of which a share occurs in the lines."""
    texts: dict[str, None] = {}
    while len(texts) < count:
        if random_.random() < share:
            line = random_.choice(lines)
            start = random_.randrange(len(line) - 12)
            text = line[start : start + random_.randint(6, 12)]
        else:
            text = "".join(random_.choices(LETTERS, k=random_.randint(4, 12)))
        if not set(text) & set("%_'\\"):
            texts[text] = None
    return list(texts)
