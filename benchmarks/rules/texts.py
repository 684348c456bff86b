"""Adding texts whose shapes do not repeat: conjunctions and nested expressions of 10 leaves, files of large rules, with patterns and
without, rules of other sorts (written.py), and the expressions of the differential tests."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

import ray_pubsub
from benchmarks.rules.report import Report
from benchmarks.rules.sizes import Sizes
from benchmarks.rules.written import RULES, written_event
from ray_pubsub.language.printer import write
from tests.generators import trees
from tests.rich_expressions import rich_texts

LARGE_RULES = 2000
CHECKED, WARMING = 200, 1000
DRAWN = 2000
"""Expressions that Hypothesis draws."""


def run(report: Report, sizes: Sizes) -> None:
    count = min(sizes.texts, 20_000)
    random_ = random.Random(3)
    shapes = [" and ".join(leaf(random_) for _ in range(10)) for _ in range(count)]
    report.line("new shapes of 10 leaves", added(report, "10 leaves", shapes), "a second", must=8000, aim=25_000)
    deep = [expression(random_, 10) for _ in range(count)]
    report.line("nested, 10 leaves", added(report, "10 leaves, nested", deep), "a second", must=8000, aim=25_000)
    nested = [expression(random_, random_.randint(1, 8)) for _ in range(count // 2)]
    report.line("nested expressions", added(report, "nested", nested), "a second", must=2000, aim=5000)
    large = [large_rule(random_) for _ in range(min(LARGE_RULES, count // 10))]
    leaves = sum(map(leaves_of, large)) / len(large)
    rate = added(report, "large rules", large)
    report.line(
        "rules of 10 to 1,000 leaves", rate, "a second", must=2000, aim=5000, note=f"{leaves:.0f} leaves a rule"
    )
    for what, make in (("alternatives", alternatives), ("excluded", detections), ("nested", nested_patterns)):
        texts = [make(random_, int(10 ** random_.uniform(1, 3))) for _ in range(len(large))]
        rate = added(report, f"rules with patterns, {what}", texts, pattern_event)
        note = f"{sum(map(len, texts)) / len(texts):,.0f} characters a rule"
        report.line(f"rules with patterns, {what}", rate, "a second", must=2000, aim=5000, note=note)
    rules = [sigma_rule(random_, random_.randint(5, 50)) for _ in range(count // 4)]
    rate = added(report, "rules as Sigma's", rules, sigma_event)
    note = f"{sum(map(len, rules)) / len(rules):,.0f} characters a rule"
    report.line("rules as the Sigma import writes them", rate, "a second", must=2000, aim=5000, note=note)
    for what, written in RULES.items():
        counts = [random_.randint(5, 50) for _ in range(count // 8)]
        rate = added(report, what, [written(random_, leaves) for leaves in counts], written_event)
        note = f"5 to 50 leaves, {rate * sum(counts) / len(counts):,.0f} leaves a second"
        report.line(what, rate, "a second", must=2000, aim=5000, note=note)
    for what, texts in (("predicates", drawn(trees().map(write), count)), ("terms", drawn(rich_texts(), count))):
        rate = added(report, f"differential tests, {what}", texts, drawn_event)
        report.line(f"differential tests, {what}", rate, "a second", must=2000, aim=5000, note=f"{len(texts):,} texts")


Event = dict[str, Any]


def added(report: Report, name: str, texts: list[str], make: Callable[[random.Random], Event] | None = None) -> float:
    """Texts a second. Answers are compared with `scan`, which keeps the expressions as they are, on some of them. `make`: an event."""
    report.step(f"texts: adding {name}")
    ray_pubsub.MatchIndex().add_many(range(len(texts[:WARMING])), texts[:WARMING])  # compiles the kernels
    index = ray_pubsub.MatchIndex()
    start = time.thread_time()
    index.add_many(range(len(texts)), texts)
    rate = len(texts) / (time.thread_time() - start)
    some = range(0, len(texts), max(1, len(texts) // CHECKED))
    scan = ray_pubsub.MatchIndex(engine="scan")
    scan.add_many(some, [texts[number] for number in some])
    random_ = random.Random(4)
    events = [(make or event)(random_) for _ in range(50)]
    found, expected = index.match_many(events), scan.match_many(events)
    chosen = set(some)
    for place in range(len(events)):
        assert sorted(set(found[place]) & chosen) == sorted(expected[place]), f"{name}: event {place} differs"
    return rate


def leaf(random_: random.Random) -> str:
    name, value = f"a{random_.randrange(30)}", random_.randrange(100)
    kind = random_.randrange(8)
    if kind == 0:
        return f"{name} in ({', '.join(str(random_.randrange(100)) for _ in range(random_.randint(1, 12)))})"
    if kind == 1:
        listed = ", ".join(f"'v{random_.randrange(40)}'" for _ in range(random_.randint(1, 12)))
        return f"{name} {random_.choice(('', 'not '))}in ({listed})"
    if kind == 2:
        return f"{name} between {value} and {value + random_.randrange(50)}"
    if kind == 3:
        return f"{name} like 'v{random_.randrange(10)}%'"
    if kind == 4:
        return f"{name} is {random_.choice(('', 'not '))}null"
    if kind == 5:
        return f"{name} = 'v{random_.randrange(40)}'"
    return f"{name} {random_.choice(('<', '<=', '=', '!=', '>', '>='))} {value}"


def leaves_of(text: str) -> int:
    """Returns the number of predicates of a text of `leaf`s: each names one of the attributes a0 to a29."""
    return len(re.findall(r"\ba[0-9]+\b", text))


def expression(random_: random.Random, leaves: int) -> str:
    if leaves == 1:
        return leaf(random_)
    left = random_.randint(1, leaves - 1)
    parts = expression(random_, left), expression(random_, leaves - left)
    text = f"({parts[0]} {random_.choice(('and', 'or'))} {parts[1]})"
    return f"not {text}" if random_.random() < 0.15 else text


def large_rule(random_: random.Random) -> str:
    """Returns a disjunction of alternatives and a few conditions, as detection rules are."""
    leaves = int(10 ** random_.uniform(1, 3))
    alternatives = " or ".join(leaf(random_) for _ in range(leaves - 2))
    return f"({alternatives}) and {leaf(random_)} and not {leaf(random_)}"


def word(random_: random.Random) -> str:
    return f"w{random_.randrange(5000)}"


def pattern(random_: random.Random, name: str) -> str:
    form = random_.choice(["like '%{}%'", "like '%{}%'", "like '{}%'", "like '%{}_x'", "regexp '{}.*[0-9]+'", "= '{}'"])
    return f"{name} {random_.choice(('', '', 'not ')) if form[0] == 'l' else ''}{form.format(word(random_))}"


def any_leaf(random_: random.Random) -> str:
    """Returns a pattern, a set or a comparison, on one of 60 attributes."""
    kind = random_.randrange(10)
    if kind < 6:
        return pattern(random_, f"s{random_.randrange(30)}")
    name, negation = f"n{random_.randrange(30)}", random_.choice(("", "", "not "))
    if kind < 8:
        listed = ", ".join(str(random_.randrange(1000)) for _ in range(random_.randint(1, 12)))
        return f"{name} {negation}in ({listed})"
    if kind == 8:
        listed = ", ".join(f"'{word(random_)}'" for _ in range(random_.randint(1, 12)))
        return f"s{random_.randrange(30)} {negation}in ({listed})"
    return f"{name} {random_.choice(('<', '<=', '=', '!=', '>', '>='))} {random_.randrange(1000)}"


def alternatives(random_: random.Random, leaves: int) -> str:
    """Alternatives of three conditions."""
    each = (" and ".join(any_leaf(random_) for _ in range(3)) for _ in range(max(1, leaves // 3)))
    return " or ".join(f"({conditions})" for conditions in each)


def detections(random_: random.Random, leaves: int) -> str:
    """Lists of patterns on one attribute each, all of which must have a match, or none."""
    parts: list[str] = []
    while leaves > 0:
        count = min(leaves, random_.choice((1, 1, 2, 3, 5, 10, 40, 200)))
        leaves -= count
        name = f"s{random_.randrange(30)}"
        listed = " or ".join(pattern(random_, name) for _ in range(count))
        if random_.random() < 0.3:
            words = ", ".join(f"'{word(random_)}'" for _ in range(count))
            listed = f"{name} in ({words})"
        parts.append(f"{'not ' if parts and random_.random() < 0.25 else ''}({listed})")
    return " and ".join(parts)


def nested_patterns(random_: random.Random, leaves: int) -> str:
    if leaves == 1:
        return any_leaf(random_)
    parts = min(leaves, random_.choice((2, 2, 3, 5, 10)))
    cuts = sorted(random_.sample(range(1, leaves), parts - 1))
    sizes = [stop - start for start, stop in zip([0, *cuts], [*cuts, leaves], strict=True)]
    text = random_.choice((" and ", " or ")).join(nested_patterns(random_, size) for size in sizes)
    return f"not ({text})" if random_.random() < 0.15 else f"({text})"


SIGMA_FIELDS = [
    "Image", "CommandLine", "OriginalFileName", "process.parent.name", "process.parent.command_line", "TargetObject", "file.path", "User",
]  # fmt: skip


def sigma_rule(random_: random.Random, leaves: int) -> str:
    """Returns selections that must all hold, each a list of alternatives on fields, and filters of which none may hold."""
    parts: list[str] = []
    while leaves > 0:
        count = min(leaves, random_.choice((1, 2, 3, 5, 10, 20)))
        leaves -= count
        name = random_.choice(SIGMA_FIELDS)
        if random_.random() < 0.25:
            listed = ", ".join(f"'{word(random_)}.exe'" for _ in range(count))
            parts.append(f"lower({name}) in ({listed})")
        else:
            listed = " or ".join(sigma_pattern(random_, name) for _ in range(count))
            parts.append(f"({listed})")
        if len(parts) > 1 and random_.random() < 0.3:
            parts[-1] = f"not ({parts[-1]} and {sigma_pattern(random_, 'User')})"
        elif random_.random() < 0.2:
            tests = (sigma_pattern(random_, name).replace(" ilike", " not ilike") for _ in range(2))
            kinds = f"{name} is null or {name} < 0 or {name} >= 0 or {name} in (true, false)"
            parts[-1] = "(" + " and ".join(f"({kinds} or {test})" for test in tests) + ")"
    return " and ".join(parts)


def sigma_pattern(random_: random.Random, name: str) -> str:
    return f"{name} ilike " + random_.choice(
        [r"'%\\{}.exe' escape '\'", "'%{}%'", "'% -{}%'", r"'C:\\{}\\%' escape '\'", "'{}%'"]
    ).format(word(random_).title())


def sigma_event(random_: random.Random) -> Event:
    texts = ("{}.exe", r"c:\{}\x.exe", "run -{} now", r"C:\W17\{}.EXE", "{}")
    return {
        name: random_.choice(texts).format(word(random_)) if random_.random() < 0.9 else random_.choice((5, True))
        for name in SIGMA_FIELDS
        if random_.random() < 0.9
    }


def pattern_event(random_: random.Random) -> Event:
    return {
        **{f"n{number}": random_.randrange(1000) for number in range(30) if random_.random() < 0.8},
        **{
            f"s{number}": random_.choice(["", "x"]) + word(random_) + random_.choice(["", "ax", "b 17"])
            for number in range(30)
            if random_.random() < 0.8
        },
    }


def drawn(strategy: SearchStrategy[str], most: int) -> list[str]:
    """What Hypothesis draws, from the same seed every time."""
    found: list[str] = []

    @seed(3)
    @settings(
        max_examples=min(DRAWN, most),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(text: str) -> None:
        found.append(text)

    draw()
    return found


def drawn_event(random_: random.Random) -> Event:
    """Values at which the differential tests' predicates differ."""
    numbers, strings = (0, 1, -1, 2, 3, 5, 0.5, 2.5, 10, 2**53 + 1, 1e300), ("", "a", "ab", "abc", "AB", " b ", "a%b")
    values: Event = {name: random_.choice(numbers) for name in ("n1", "n2", "n3")}
    values |= {"a": {"b": random_.choice(numbers)}, "s1": random_.choice(strings), "s2": random_.choice(strings)}
    values |= {"b1": random_.random() < 0.5, "l1": random_.sample(numbers, 3), "l2": random_.sample(strings, 2)}
    return {name: value for name, value in values.items() if random_.random() < 0.9}


def event(random_: random.Random) -> dict[str, int | str]:
    """Half of the attributes, each a number or a string."""
    return {
        f"a{number}": random_.randrange(100) if random_.random() < 0.5 else f"v{random_.randrange(40)}"
        for number in range(30)
        if random_.random() < 0.5
    }
