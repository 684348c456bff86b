"""Thousands of patterns on one attribute, one core: asked together and one by one, answers compared in the same run.

python -m benchmarks many_patterns [--patterns 1,100,10000] [--texts 10,1000,10000,20000]

The second table is the search for texts (`like '%text%'`) in log lines, in MB/s of one core, beside what else could do it: an automaton
of the same texts, in the same run. Both must find the same.
"""

from __future__ import annotations

import argparse
import random
import time
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.log_lines import log_lines, searched_texts, vocabulary
from benchmarks.timing import measure
from ray_pubsub.columns.literal_search import Literal
from ray_pubsub.columns.pattern_set import PatternSet
from ray_pubsub.columns.text_automaton import TextAutomaton
from ray_pubsub.language.patterns import compile_regexp, like_regexp
from ray_pubsub.language.tree import Like, Operand, Regexp
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.text_column import TextColumn
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
    parser.add_argument("--texts", default="10,1000,10000,20000")
    options = parser.parse_args(arguments)
    if options.patterns:
        one_attribute([int(count) for count in options.patterns.split(",")])
    if options.texts:
        text_search([int(count) for count in options.texts.split(",")])


def text_search(counts: list[int], size: int = 4_000_000) -> list[float]:
    """Prints and returns the MB/s of PatternSet over distinct log lines of that size."""
    random_ = random.Random(1)
    words = vocabulary(random_)
    lines = log_lines(random_, words, size)
    column = TextColumn.encoded(lines)
    rates = []
    table = Table(title=f"Texts searched for in {size / 1e6:.0f} MB of log lines, one core", title_justify="left")
    for name in ("texts", "MB/s", "noise", "automaton MB/s", "÷", "pairs", "build ms", "one line µs"):
        table.add_column(name, justify="right")
    for count in counts:
        texts = searched_texts(random.Random(count), words, count)
        together = PatternSet([Like("s", Operand(Kind.STRING, f"%{escaped(text)}%"), "!") for text in texts])
        start = time.thread_time()
        together.matches(column)
        built = time.thread_time() - start
        automaton = TextAutomaton([Literal(text) for text in texts])
        offsets, numbers = together.matches(column)
        found = np.column_stack([np.repeat(np.arange(len(lines)), np.diff(offsets)), numbers])
        other = np.column_stack(automaton.find(column))
        assert np.array_equal(found[np.lexsort(found.T)], other[np.lexsort(other.T)])
        for place in random_.sample(range(len(lines)), 20):
            in_line = [number for number, text in enumerate(texts) if text in lines[place]]
            assert sorted(numbers[offsets[place] : offsets[place + 1]]) == in_line
        clock = time.thread_time
        several = measure(lambda together=together: together.matches(column), clock=clock)  # type: ignore[misc]
        alone = measure(lambda automaton=automaton: automaton.find(column), 2, clock)  # type: ignore[misc]
        one = measure(lambda together=together: [together.matches_of(line) for line in lines[:1000]], 5, clock)  # type: ignore[misc]
        total = len(column.bytes.data)
        rates.append(total / several.best / 1e6)
        table.add_row(
            f"{count:,}", f"{rates[-1]:,.0f}", f"{several.noise:.0%}", f"{total / alone.best / 1e6:,.0f}",
            f"{alone.best / several.best:.1f}", f"{len(numbers):,}", f"{(built - several.best) * 1e3:.0f}",
            f"{one.best / 1000 * 1e6:.1f}",
        )  # fmt: skip
    Console(width=140).print(table)
    return rates


def escaped(text: str) -> str:
    return "".join(f"!{letter}" if letter in "!%_" else letter for letter in text)


def one_attribute(counts: list[int]) -> None:
    """The table of kinds of patterns."""
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
        for count in counts:
            random_ = random.Random(count)
            leaves = patterns(random_, kind, count)
            strings = values(random_, leaves)
            texts_of = TextColumn(None, strings)
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
            offsets, numbers = together.matches(texts_of)
            answers = [sorted(numbers[first:last].tolist()) for first, last in pairwise(offsets)]

            def one_by_one(asked: list[str] = asked, programs: list[object] = programs) -> list[list[int]]:
                return [[number for number, program in enumerate(programs) if program.search(text)] for text in asked]  # type: ignore[attr-defined]

            assert one_by_one() == answers[: len(asked)]
            alone = measure(one_by_one, 2).best / len(asked)
            several = measure(lambda together=together, texts_of=texts_of: together.matches(texts_of))  # type: ignore[misc]
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
