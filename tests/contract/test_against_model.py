"""Random sequences of operations on every engine against a plain dict, and readers that match while a writer changes.

The model keeps, per id, a function that says whether an event matches: `truth` of the parsed text, or for a table of intervals
the definition of `add_predicates` written out.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.errors import (
    ExpressionError,
    RejectedSubscriptionsError,
    SubscriptionIdError,
    UnknownSubscriptionError,
)
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.language.parser import parse
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.values import Kind, Value
from tests.examples import scaled
from tests.inside_of_index import merge_all

every_engine = pytest.mark.parametrize("engine", engine_names())

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
bad_texts = st.sampled_from(["", "x =", "x = 1 and", "x = y z", "x between 1 and 'a'", "s regexp '('", "5"])

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
    choice: list[str | int] = draw(st.sampled_from([[*STRING_IDS], [*NUMBER_IDS]]))
    identities = st.sampled_from(choice)
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
        """Enough at once that an engine may build a block of them and, the next time, merge or rewrite its blocks."""
        strangers: dict[str | int, str] = {f"stranger {number}": f"stranger = {number}" for number in range(size)}
        everybody: dict[str | int, str] = {**dict(items), **strangers}
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
        """At any moment, however little there is: the tail becomes a block, all become one, or maintenance looks what there is to do."""
        engine = self.index._books.engine
        if not isinstance(engine, SegmentedIndex):
            return
        if how == "one block":
            merge_all(engine)
            return
        if how == "build" and engine.snapshot.tail.clauses:
            engine.seal()
        engine.maintenance.run()

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


@every_engine
@pytest.mark.usefixtures("no_sync")
def test_any_sequence_of_operations(engine: str) -> None:
    run_state_machine_as_test(
        lambda: IndexAgainstDict(engine),  # type: ignore[arg-type, return-value]
        settings=settings(
            derandomize=True,
            deadline=None,
            max_examples=scaled(13),
            stateful_step_count=30,
            phases=[Phase.generate],  # add Phase.shrink to see the shortest sequence that fails; it takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
