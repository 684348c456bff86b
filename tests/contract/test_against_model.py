"""Random sequences of operations on every engine against a plain dict, and readers that match while a writer changes.

The model keeps, per id, a function that says whether an event matches: `truth` of the parsed text, or for a table of intervals
the definition of `add_predicates` written out.
"""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ray_pubsub import MatchIndex
from ray_pubsub.errors import (
    ExpressionError,
    RejectedSubscriptionsError,
    SubscriptionIdError,
    UnknownSubscriptionError,
)
from ray_pubsub.index.engine_choice import ENGINES
from ray_pubsub.index.live import LiveIndex
from ray_pubsub.language.parser import parse
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.values import Kind, Value

every_engine = pytest.mark.parametrize("engine", ENGINES)

Event = Mapping[str, Value]
Meaning = Callable[[Event], bool]

# ------------------------------------------------------------------------------------------------ what the rules draw

STRING_IDS = ["1", "2", "a", "b", "", "ü"]
NUMBER_IDS = [1, 2, 3, -5, 0, 2**63 - 1]
ids = st.sampled_from([*STRING_IDS, *NUMBER_IDS])

NUMBERS = ["0", "1", "2", "-1", "2.5", "0.1", "9007199254740993", "double 'inf'"]
STRINGS = ["''", "'a'", "'ab'", "'b'", "'it''s'", "'\U0001f600'"]
MOMENTS = ["date '2024-05-01'", "timestamp '2024-05-01 10:00:00+02:00'"]
CONSTANTS = {"x": NUMBERS, "y": NUMBERS, "s": STRINGS, "n.s": STRINGS, "b": ["true", "false"], "t": MOMENTS}


@st.composite
def leaves(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(list(CONSTANTS)))
    constant = st.sampled_from(CONSTANTS[name])
    form = draw(st.sampled_from(["compare", "compare", "between", "in", "null", "pattern", "constant"]))
    negated = draw(st.sampled_from(["", "not "]))
    if form == "between":
        return f"{name} {negated}between {draw(constant)} and {draw(constant)}"
    if form == "in":
        members = draw(st.lists(constant | st.just("null"), min_size=1, max_size=4))
        return f"{name} {negated}in ({', '.join(members)})"
    if form == "null":
        return f"{name} is {negated}null"
    if form == "pattern":
        pattern = draw(st.sampled_from(["like 'a%'", "like '%b'", "like '_'", "like '%'", "regexp '^a'", "like ''"]))
        return f"s {negated}{pattern}"
    if form == "constant":
        return draw(st.sampled_from(["true", "false", "null", "b", "not b"]))
    return f"{name} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(constant)}"


texts = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: "(" + " and ".join(parts) + ")"),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: "(" + " or ".join(parts) + ")"),
        inner.map(lambda part: f"not ({part})"),
    ),
    max_leaves=8,
)
bad_texts = st.sampled_from(["", "x =", "x = 1 and", "x = y", "x between 1 and 'a'", "s regexp '('", "5"])

number_values = st.sampled_from([0, 1, 2, -1, 2.5, 0.1, -0.0, 2**53, 2**53 + 1, float("inf"), float("nan"), None])
string_values = st.sampled_from(["", "a", "ab", "b", "it's", "\U0001f600", None])
boolean_values = st.sampled_from([True, False, None])
moment_values = st.sampled_from(
    [datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1, 8), datetime.datetime(2024, 5, 2), None]
)
any_values = st.one_of(number_values, string_values, boolean_values, moment_values)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, any_values)


events = st.fixed_dictionaries(
    {},
    optional={
        "x": mostly(number_values),
        "y": mostly(number_values),
        "s": mostly(string_values),
        "n": st.fixed_dictionaries({}, optional={"s": mostly(string_values)}),
        "b": mostly(boolean_values),
        "t": mostly(moment_values),
        "unasked": any_values,
    },
)


class Interval(NamedTuple):
    attribute: str
    low: Any
    high: Any
    low_closed: bool
    high_closed: bool

    def contains(self, plain: Any) -> bool:
        above = self.low is None or (plain >= self.low if self.low_closed else plain > self.low)
        below = self.high is None or (plain <= self.high if self.high_closed else plain < self.high)
        return above and below


class Predicates(NamedTuple):
    kind: Kind
    rows: list[tuple[Any, Interval]]

    def table(self) -> pa.Table:
        bound = {Kind.NUMBER: pa.float64(), Kind.STRING: pa.string(), Kind.TIMESTAMP: pa.timestamp("us")}[self.kind]
        return pa.table(
            {
                "id": [identity for identity, _ in self.rows],
                "attribute": [interval.attribute for _, interval in self.rows],
                "low": pa.array([interval.low for _, interval in self.rows], bound),
                "high": pa.array([interval.high for _, interval in self.rows], bound),
                "low_closed": [interval.low_closed for _, interval in self.rows],
                "high_closed": [interval.high_closed for _, interval in self.rows],
            }
        )

    def meanings(self) -> dict[Any, Meaning]:
        grouped: dict[Any, dict[str, list[Interval]]] = {}
        for identity, interval in self.rows:
            grouped.setdefault(identity, {}).setdefault(interval.attribute, []).append(interval)
        return {identity: self._meaning(ways) for identity, ways in grouped.items()}

    def _meaning(self, ways: dict[str, list[Interval]]) -> Meaning:
        def holds(event: Event) -> bool:
            for attribute, alternatives in ways.items():
                value = event.get(attribute)
                if value is None or value.kind is not self.kind:
                    return False
                if not any(interval.contains(value.plain) for interval in alternatives):
                    return False
            return True

        return holds


MICROSECONDS = [1714521600000000, 1714550400000000, 1714608000000000]
BOUNDS: dict[Kind, list[Any]] = {
    Kind.NUMBER: [None, -1.0, 0.0, 0.1, 1.0, 2.5, 9007199254740992.0, float("inf"), float("-inf")],
    Kind.STRING: [None, "", "a", "ab", "b", "\U0001f600"],
    Kind.TIMESTAMP: [None, *MICROSECONDS],
}


@st.composite
def predicates(draw: st.DrawFn) -> Predicates:
    kind = draw(st.sampled_from(list(BOUNDS)))
    names = {Kind.NUMBER: ["x", "y"], Kind.STRING: ["s", "n.s"], Kind.TIMESTAMP: ["t"]}[kind]
    identities = st.sampled_from(draw(st.sampled_from([STRING_IDS, NUMBER_IDS])))
    bound = st.sampled_from(BOUNDS[kind])
    interval = st.builds(Interval, st.sampled_from(names), bound, bound, st.booleans(), st.booleans())
    return Predicates(kind, draw(st.lists(st.tuples(identities, interval), min_size=1, max_size=8)))


# --------------------------------------------------------------------------------------------------------- the machine


class IndexAgainstDict(RuleBasedStateMachine):
    def __init__(self, engine: str) -> None:
        super().__init__()
        self.index = MatchIndex(engine)
        self.model: dict[str | int, Meaning] = {}
        self.written: dict[str | int, str] = {}
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(identity=ids, text=texts)
    def add(self, identity: str | int, text: str) -> None:
        self.index.add(identity, text)
        self.put_text(identity, text)

    @rule(identity=ids, text=bad_texts)
    def add_bad(self, identity: str | int, text: str) -> None:
        with pytest.raises(ExpressionError):
            self.index.add(identity, text)

    @rule(identity=st.sampled_from([True, None, 1.0, b"a", 2**63]), text=texts)
    def add_under_a_bad_id(self, identity: Any, text: str) -> None:
        with pytest.raises(SubscriptionIdError):
            self.index.add(identity, text)

    @rule(
        items=st.lists(st.tuples(ids, texts | bad_texts), max_size=8, unique_by=lambda item: item[0]),
        atomic=st.booleans(),
    )
    def add_many(self, items: list[tuple[str | int, str]], atomic: bool) -> None:
        bad = [position for position, (_, text) in enumerate(items) if is_bad(text)]
        identities, expressions = [item[0] for item in items], [item[1] for item in items]
        if atomic and bad:
            with pytest.raises(RejectedSubscriptionsError) as caught:
                self.index.add_many(identities, expressions, atomic=True)
            assert [rejection.position for rejection in caught.value.rejections] == bad
            return
        report = self.index.add_many(identities, expressions, atomic=atomic)
        assert [rejection.position for rejection in report.rejections] == bad
        assert report.added == len(items) - len(bad)
        for position, (identity, text) in enumerate(items):
            if position not in bad:
                self.put_text(identity, text)

    @rule(table=predicates())
    def add_predicates(self, table: Predicates) -> None:
        report = self.index.add_predicates(table.table())
        meanings = table.meanings()
        assert (report.added, report.rejections) == (len(meanings), [])
        for identity, meaning in meanings.items():
            self.put(identity, meaning)
            self.written.pop(identity, None)

    @rule(
        items=st.lists(st.tuples(ids, texts), max_size=6, unique_by=lambda item: item[0]),
        size=st.sampled_from([300, 1_100]),
    )
    def add_in_a_crowd(self, items: list[tuple[str | int, str]], size: int) -> None:
        """So many at once that an engine may make a block of them; again, and it may merge or rewrite its blocks."""
        strangers = {f"stranger {number}": f"stranger = {number}" for number in range(size)}
        everybody = {**dict(items), **strangers}
        assert self.index.add_many(everybody.keys(), everybody.values()).added == len(everybody)
        for identity, text in items:
            self.put_text(identity, text)
        for identity in strangers:
            self.put(identity, lambda event: False)

    @rule()
    def disperse(self) -> None:
        """The strangers leave, so that an engine may have blocks that are mostly dead."""
        strangers = [identity for identity in self.model if str(identity).startswith("stranger")]
        assert self.index.remove_many(strangers) == len(strangers)
        for identity in strangers:
            del self.model[identity]

    @rule(identity=ids)
    def remove(self, identity: str | int) -> None:
        assert self.index.remove(identity) == (identity in self.model)
        self.model.pop(identity, None)

    @rule(identities=st.lists(ids, max_size=5))
    def remove_many(self, identities: list[str | int]) -> None:
        assert self.index.remove_many(identities) == len(self.model.keys() & set(identities))
        for identity in identities:
            self.model.pop(identity, None)

    @rule(how=st.sampled_from(["one block", "build", "look"]))
    def merge(self, how: str) -> None:
        """At any moment, however little there is: the tail becomes a block, all become one, or upkeep looks what there is to do."""
        engine = self.index._books.engine
        if not isinstance(engine, LiveIndex):
            return
        if how == "one block":
            engine.upkeep.merge_all()
            return
        if how == "build" and engine.snapshot.tail.clauses:
            engine.seal()
        engine.upkeep.run()

    @rule()
    def save_and_load(self) -> None:
        path = Path(self.folder.name) / "index"
        self.index.save(path)
        self.index = MatchIndex.load(path)

    @rule(event=events)
    def match(self, event: dict[str, Any]) -> None:
        assert in_order(self.index.match(event)) == self.expected(event)

    @rule(batch=st.lists(events, max_size=12))
    def match_many(self, batch: list[dict[str, Any]]) -> None:
        result = self.index.match_many(batch)
        assert result.errors == []
        assert [in_order(result[place]) for place in range(len(batch))] == [self.expected(event) for event in batch]

    @rule(event=events, identity=ids)
    def explain(self, event: dict[str, Any], identity: str | int) -> None:
        if identity not in self.model:
            with pytest.raises(UnknownSubscriptionError):
                self.index.explain(event, identity)
        else:
            assert self.index.explain(event, identity).matched == self.model[identity](flatten(event))

    @rule(identity=ids)
    def read_back(self, identity: str | int) -> None:
        if identity in self.model and identity in self.written:
            assert self.index.expression(identity) == self.written[identity]

    @invariant()
    def holds_the_same_ids(self) -> None:
        assert list(self.index) == list(self.model)
        assert len(self.index) == len(self.model)
        assert all((identity in self.index) == (identity in self.model) for identity in [*STRING_IDS, *NUMBER_IDS])

    def put_text(self, identity: str | int, text: str) -> None:
        tree = parse(text)
        self.put(identity, lambda event: truth(tree, event) is True)
        self.written[identity] = text

    def put(self, identity: str | int, meaning: Meaning) -> None:
        self.model.pop(identity, None)  # a replaced subscription moves to the end of the order
        self.model[identity] = meaning

    def expected(self, event: dict[str, Any]) -> list[str | int]:
        values = flatten(event)
        return in_order([identity for identity, meaning in self.model.items() if meaning(values)])


def is_bad(text: str) -> bool:
    try:
        parse(text)
    except ExpressionError:
        return True
    return False


def in_order(identities: list[str | int]) -> list[str | int]:
    """Strings and ints have no order of their own."""
    return sorted(identities, key=repr)


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk would take most of the time, and nothing crashes here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@every_engine
@pytest.mark.usefixtures("no_sync")
def test_any_sequence_of_operations(engine: str) -> None:
    run_state_machine_as_test(
        lambda: IndexAgainstDict(engine),
        settings=settings(
            derandomize=True,
            deadline=None,
            max_examples=25,
            stateful_step_count=30,
            phases=[Phase.generate],  # add Phase.shrink to see the shortest sequence that fails; it takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )


# ------------------------------------------------------------------------------------------------------ single promises


@every_engine
def test_one_and_its_text_are_different_ids(engine: str) -> None:
    index = MatchIndex(engine)
    index.add(1, "x = 1")
    index.add("1", "x = 2")
    assert index.match({"x": 1}) == [1]
    assert index.match({"x": 2}) == ["1"]
    assert index.remove("1")
    assert 1 in index
    assert "1" not in index
    assert True not in index


@every_engine
def test_matches_come_in_the_order_of_adding(engine: str) -> None:
    index = MatchIndex(engine)
    index.add("b", "x > 0")
    index.add_predicates(pa.table({"id": [7, 3], "attribute": ["x", "x"], "low": [0, 0], "high": [9, 9]}))
    index.add("a", "x > 1")
    index.add_many(["c", "b"], ["x > 2", "x > 3"])
    assert index.match({"x": 5}) == list(index) == [7, 3, "a", "c", "b"]


@every_engine
def test_a_bad_event_is_reported_and_the_others_match(engine: str) -> None:
    index = MatchIndex(engine)
    index.add("s", "x = 1")
    result = index.match_many([{"x": 1}, {"x": [1]}, {"x": 2}, {"x": 1}, {1: 1}])
    assert [result[place] for place in range(5)] == [["s"], [], [], ["s"], []]
    assert [(error.position, error.attribute) for error in result.errors] == [(1, "x"), (4, "1")]


@every_engine
@pytest.mark.parametrize("nothing", [[], pa.table({"x": pa.array([], pa.int64())})], ids=["list", "table"])
def test_no_events(engine: str, nothing: Any) -> None:
    index = MatchIndex(engine)
    index.add("s", "true")
    result = index.match_many(nothing)
    assert (len(result), result.event_ids.tolist(), result.offsets.tolist()) == (0, [], [0])


@every_engine
def test_no_subscriptions(engine: str) -> None:
    index = MatchIndex(engine)
    assert index.match({"x": 1}) == []
    index.add("s", "x = 1")
    index.remove("s")
    assert index.match({"x": 1}) == []
    assert index.match_many([{"x": 1}, {}]).offsets.tolist() == [0, 0, 0]


@every_engine
def test_many_changes_of_one_subscription(engine: str) -> None:
    index = MatchIndex(engine)
    for value in range(300):
        index.add("s", f"x = {value}")
        assert index.match({"x": value}) == ["s"]
        assert index.match({"x": value - 1}) == []
    assert len(index) == 1


def random_templates(random: Random, count: int) -> list[str]:
    """Expressions with places for constants: {0} to {3} anywhere, {4} where a set of values has holes."""
    templates = []
    for _ in range(count):
        tests = []
        for name in random.sample("abcd", random.randint(2, 4)):
            forms = [f"{name} {random.choice(['=', '<', '<=', '>', '>='])} {{0}}", f"{name} between {{1}} and {{2}}.5"]
            if name in "ab":
                forms += [f"{name} != {{4}}", f"{name} not in ({{4}}, 30)", f"{name} not between {{4}} and 40"]
                forms += [f"({name} is null or {name} > {{4}})", f"{name} = 's{{3}}'", f"{name} like 's%'"]
            tests.append(random.choice(forms))
        templates.append((" and " if random.random() < 0.8 else " or ").join(tests))
    return templates


def random_event(random: Random) -> dict[str, Any]:
    values = [random.randint(0, 60), random.randint(0, 240) / 4, f"s{random.randint(0, 9)}", None]
    return {name: random.choice([values[0], values[1], *values]) for name in "abcd"}


class Change(NamedTuple):
    identities: list[int]
    expressions: list[str]
    gone: list[int]
    matches: list[list[str | int]]
    """Of each event, afterwards."""


@cache
def thousands(holes: int, seed: int) -> tuple[list[dict[str, Any]], list[Change]]:
    """Events and changes, with the answers of the engine that has no size: they take longest, and are the same for all engines."""
    random = Random(seed)
    oracle = MatchIndex("scan")
    templates = random_templates(random, 40)
    batch = [random_event(random) for _ in range(8)]
    changes = []
    for size, kept in ((5_500, 1.0), (0, 0.6), (1_200, 0.1)):
        identities = random.sample(range(9_000), size)
        constants = [[random.randint(0, 60) for _ in range(4)] + [random.randrange(holes)] for _ in range(size)]
        expressions = [random.choice(templates).format(*row) for row in constants]
        assert oracle.add_many(identities, expressions)
        gone = [identity for identity in oracle if random.random() > kept]
        assert oracle.remove_many(gone) == len(gone)
        result = oracle.match_many(batch)
        changes.append(Change(identities, expressions, gone, [sorted(result[place]) for place in range(len(batch))]))
    return batch, changes


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "scan"])
@pytest.mark.parametrize("holes", [2, 60], ids=["few sets with holes", "many sets with holes"])
@pytest.mark.parametrize("seed", [0, 1])
def test_thousands_of_subscriptions_on_few_attributes(engine: str, holes: int, seed: int) -> None:
    """Engines that only pay for themselves beyond some size."""
    batch, changes = thousands(holes, seed)
    index = MatchIndex(engine)
    for change in changes:
        assert index.add_many(change.identities, change.expressions)
        assert index.remove_many(change.gone) == len(change.gone)
        result = index.match_many(batch)
        assert [sorted(result[place]) for place in range(len(batch))] == change.matches
        assert [sorted(index.match(event)) for event in batch[:4]] == change.matches[:4]


# ------------------------------------------------------------------------------------------------------------- threads

CHANGES = 250
SIDES = [{"x": 1}, {"x": 2}]


@contextmanager
def threads_switch_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def change_while_reading(write: Callable[[int], None], read: Callable[[], None]) -> None:
    """Two readers go on until the writer has made all its changes; whatever fails in a thread fails the test."""
    done = threading.Event()

    def reading() -> int:
        rounds = 0
        while not done.is_set() or rounds == 0:
            read()
            rounds += 1
        return rounds

    def writing() -> None:
        try:
            for number in range(CHANGES):
                write(number)
        finally:
            done.set()

    with threads_switch_often(), ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(reading), pool.submit(reading), pool.submit(writing)]
        for task in tasks:
            task.result(timeout=60)


@every_engine
def test_a_replaced_subscription_is_always_one_of_the_two(engine: str) -> None:
    index = MatchIndex(engine)
    steady, strangers = ["s0", 1, "s2", 3], range(10_000, 11_100)
    index.add_many(steady, ["x = 1"] * 4)

    def write(number: int) -> None:
        index.add(steady[number % 4], f"x = {1 + number // 4 % 2}")
        index.add(f"fresh {number}" if number % 2 else number + 100, "x = 3")  # the ids' column grows meanwhile
        if number % 50 == 0:  # and blocks come and go
            index.add_many(strangers, [f"stranger = {each}" for each in strangers])
        elif number % 50 == 25:
            index.remove_many(strangers)

    def read() -> None:
        result = index.match_many(SIDES)
        assert in_order([*result[0], *result[1]]) == in_order(steady)

    change_while_reading(write, read)


@every_engine
def test_a_bulk_replacement_is_seen_whole(engine: str) -> None:
    index = MatchIndex(engine)
    names = [f"s{number}" for number in range(20)]
    index.add_many(names, ["x = 1"] * 20)

    def write(number: int) -> None:
        side = 1 + (number + 1) % 2
        if number % 3:
            index.add_many(names, [f"x = {side}"] * 20)
        else:
            bounds = [side] * 20
            index.add_predicates(pa.table({"id": names, "attribute": ["x"] * 20, "low": bounds, "high": bounds}))

    def read() -> None:
        result = index.match_many(SIDES)
        assert sorted([len(result[0]), len(result[1])]) == [0, 20]
        assert sorted([*result[0], *result[1]]) == sorted(names)

    change_while_reading(write, read)


@every_engine
def test_added_and_removed_together(engine: str) -> None:
    index = MatchIndex(engine)
    pair = ["left", 2]

    def write(number: int) -> None:
        if number % 2:
            assert index.remove_many(pair) == 2
        else:
            index.add_many(pair, ["x = 1 or y = 1", "true"])

    def read() -> None:
        assert index.match({"x": 1}) in ([], pair)
        assert all(in_order(found) in ([], in_order(pair)) for found in index.match_many([{"x": 1}, {"y": 1}]))

    change_while_reading(write, read)


@every_engine
@pytest.mark.usefixtures("no_sync")
def test_saving_and_listing_while_writing(engine: str, tmp_path: Path) -> None:
    index = MatchIndex(engine)
    index.add_many(["left", "right"], ["x = 1", "x = 1"])

    def write(number: int) -> None:
        index.add_many(["left", "right"], [f"x = {number}"] * 2)

    def read() -> None:
        assert set(index) <= {"left", "right"}
        path = tmp_path / f"{threading.get_ident()}"
        index.save(path)
        loaded = MatchIndex.load(path)
        assert loaded.expression("left") == loaded.expression("right")

    change_while_reading(write, read)
