"""Thousands of patterns on one attribute, one core: asked together and one by one, answers compared in the same run.

python -m benchmarks many_patterns [--patterns 1,100,10000]
"""

from __future__ import annotations

import argparse
import random
from itertools import pairwise

from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.timing import measure
from ray_pubsub.columns.pattern_set import PatternSet
from ray_pubsub.language.patterns import compile_regexp, like_regexp
from ray_pubsub.language.tree import Like, Operand, Regexp
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.values import Kind

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VALUES = 256


def word(random_: random.Random, least: int, most: int) -> str:
    return "".join(random_.choices(LETTERS, k=random_.randint(least, most)))


def patterns(random_: random.Random, kind: str, count: int) -> list[Like | Regexp]:
    found: dict[Like | Regexp, None] = {}
    while len(found) < count:
        first, second = word(random_, 3, 8), word(random_, 3, 8)
        text = {
            "like '%text'": f"%{first}",
            "like '%text%'": f"%{first}%",
            "like 'a%b_c'": f"{first[0]}%{second}_{first[1]}",
            "regexp with a text": f"^[a-m].*{first}[0-9]?(x|{second})",
            "regexp without": f"[{first}][{second}]{{2,3}}[{first[0]}-z]$",
        }[kind]
        operand = Operand(Kind.STRING, text)
        found[Like("s", operand) if kind.startswith("like") else Regexp("s", operand)] = None
    return list(found)


def values(random_: random.Random, chosen: list[Like | Regexp]) -> list[str]:
    """Distinct strings of two or three words; a few contain the letters of a pattern."""
    found: dict[str, None] = {}
    while len(found) < VALUES:
        parts = [word(random_, 4, 10) for _ in range(random_.randint(2, 3))]
        if random_.random() < 0.2:
            parts.append("".join(letter for letter in random_.choice(chosen).pattern.plain if letter in LETTERS))
        found[" ".join(parts)] = None
    return list(found)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks many_patterns", description=__doc__)
    parser.add_argument("--patterns", default="1,100,10000")
    options = parser.parse_args(arguments)
    table = Table(title=f"Patterns on one attribute, {VALUES} distinct strings, one core", title_justify="left")
    for column in (
        "patterns",
        "",
        "one by one µs/string",
        "together µs/string",
        "÷",
        "noise",
        "matches/string",
        "index µs/event",
    ):
        table.add_column(column, justify="right" if column else "left")
    for kind in ("like '%text'", "like '%text%'", "like 'a%b_c'", "regexp with a text", "regexp without"):
        for count in map(int, options.patterns.split(",")):
            random_ = random.Random(count)
            leaves = patterns(random_, kind, count)
            strings = values(random_, leaves)
            texts = [
                like_regexp(each.pattern.plain, None) if isinstance(each, Like) else each.pattern.plain
                for each in leaves
            ]
            compile_regexp.cache_clear()
            programs = [
                compile_regexp(text) for text in texts
            ]  # kept here: the cache of programs is smaller than some of the lists
            asked = strings if count < 1000 else strings[:32]
            together = PatternSet(leaves)
            offsets, numbers = together.matches(strings)
            answers = [sorted(numbers[first:last].tolist()) for first, last in pairwise(offsets)]

            def one_by_one(asked: list[str] = asked, programs: list[object] = programs) -> list[list[int]]:
                return [[number for number, program in enumerate(programs) if program.search(text)] for text in asked]  # type: ignore[attr-defined]

            assert one_by_one() == answers[: len(asked)]
            alone = measure(one_by_one, 2).best / len(asked)
            several = measure(lambda together=together, strings=strings: together.matches(strings))  # type: ignore[misc]
            index = ray_pubsub.MatchIndex()
            written = [each.pattern.plain.replace("'", "''") for each in leaves]
            word_ = "like" if kind.startswith("like") else "regexp"
            index.add_many(range(count), [f"s {word_} '{text}'" for text in written], atomic=True)
            index.add_many(
                range(count, count + 2000), ["a = 1"] * 2000, atomic=True
            )  # so that the patterns are in a block
            batch = from_dicts([{"s": text} for text in strings])
            found = index.match_many(batch)
            assert [sorted(found[place]) for place in range(VALUES)] == answers
            matched = measure(lambda index=index, batch=batch: index.match_many(batch))  # type: ignore[misc]
            table.add_row(
                f"{count:,}", kind, f"{alone * 1e6:,.1f}", f"{several.best / VALUES * 1e6:,.2f}",
                f"{alone / (several.best / VALUES):,.0f}", f"{several.noise:.0%}", f"{len(numbers) / VALUES:.1f}",
                f"{matched.best / VALUES * 1e6:,.1f}",
            )  # fmt: skip
    Console(width=140).print(table)
