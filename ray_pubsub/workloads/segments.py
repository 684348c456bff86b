"""W4: audience segments as advertisers write them. Three or more tests on 8 attributes, most of them sets of 1 to 20 values (some `not in`)
from vocabularies of 12 to 20,000 values with Zipf frequencies, the others ranges.

The same segments exist as texts (strings for the sets, numbers for the ranges) and as rows of intervals over numbered values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.distributions import zipf_ranks

__all__ = ["ATTRIBUTES", "Segments", "Tests", "predicate_table", "segments"]

ATTRIBUTES = ("country", "city", "device", "os", "site", "interest", "age", "hour")
VOCABULARY = (200, 5000, 40, 12, 20_000, 800, 100, 24)
LARGEST_SET = (5, 20, 6, 3, 20, 10, 0, 0)
TESTED = np.array([0.7, 0.2, 0.4, 0.35, 0.25, 0.4, 0.5, 0.25])
NEGATED = (0.1, 0.0, 0.1, 0.0, 0.3, 0.0, 0.0, 0.0)
IN, NOT_IN, BETWEEN = 0, 1, 2
SKEW = 0.8
"""The exponent of the Zipf distribution of every vocabulary."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Segment i has the tests offsets[i]:offsets[i + 1]; test t has an attribute, a kind and the values
    value_offsets[t]:value_offsets[t + 1] (of BETWEEN the two bounds)."""

    offsets: NDArray[np.int64]
    attribute: NDArray[np.int32]
    kind: NDArray[np.int8]
    value_offsets: NDArray[np.int64]
    value: NDArray[np.int32]
    events: NDArray[np.int32]
    """The value of each event and attribute."""
    matches_of_a_million: int = 468_196
    """The number of matches of the first 200 events with the million."""

    @property
    def subscriptions(self) -> int:
        return len(self.offsets) - 1

    def text(self, number: int) -> str:
        parts = []
        for test in range(int(self.offsets[number]), int(self.offsets[number + 1])):
            name = ATTRIBUTES[self.attribute[test]]
            values = self.value[self.value_offsets[test] : self.value_offsets[test + 1]].tolist()
            if self.kind[test] == BETWEEN:
                parts.append(f"{name} between {values[0]} and {values[1]}")
            else:
                listed = ", ".join(f"'{name}{value}'" for value in values)
                parts.append(f"{name} {'not ' if self.kind[test] == NOT_IN else ''}in ({listed})")
        return " and ".join(parts)

    def texts(self, count: int | None = None) -> Iterator[str]:
        return (self.text(number) for number in range(self.subscriptions if count is None else count))

    def predicates(self) -> Any:
        """Returns the segments over numbered values, as a table for `MatchIndex.add_predicates`: a row per value, or per gap of a `not
        in`."""
        return predicate_table(self, ATTRIBUTES)

    def event(self, number: int) -> dict[str, Any]:
        values = zip(ATTRIBUTES, self.events[number].tolist(), strict=True)
        return {name: value if name in ("age", "hour") else f"{name}{value}" for name, value in values}

    def event_table(self, *, numbered: bool = False) -> Any:
        """Returns all events as an Arrow table; `numbered` as for `predicates`."""
        import pyarrow as pa

        columns = {}
        for place, name in enumerate(ATTRIBUTES):
            values = self.events[:, place]
            plain = numbered or name in ("age", "hour")
            columns[name] = pa.array(values if plain else [f"{name}{value}" for value in values.tolist()])
        return pa.table(columns)


class Tests(Protocol):
    """The arrays of rules: those of `Segments`."""

    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def attribute(self) -> NDArray[np.int32]: ...
    @property
    def kind(self) -> NDArray[np.int8]: ...
    @property
    def value_offsets(self) -> NDArray[np.int64]: ...
    @property
    def value(self) -> NDArray[np.int32]: ...


def predicate_table(rules: Tests, names: Sequence[str]) -> Any:
    """Returns rules over numbered values as rows of intervals, a row per value, or per gap of a `not in`."""
    import pyarrow as pa

    test, low, high, open_low, open_high = _rows(rules)
    owner = np.repeat(np.arange(len(rules.offsets) - 1), np.diff(rules.offsets))[test]
    return pa.table(
        {
            "id": owner,
            "attribute": pa.DictionaryArray.from_arrays(pa.array(rules.attribute[test]), pa.array(names)),
            "low": pa.array(low, mask=open_low == 2),
            "high": pa.array(high, mask=open_high == 2),
            "low_closed": open_low == 0,
            "high_closed": open_high == 0,
        }
    )


def _rows(rules: Tests) -> tuple[NDArray[Any], ...]:
    """Returns test, bounds, and whether each bound is closed (0), open (1) or missing (2), in the order of the tests."""
    sizes = np.diff(rules.value_offsets)
    first = rules.value_offsets[:-1]
    ranges, points = np.flatnonzero(rules.kind == BETWEEN), np.flatnonzero(rules.kind == IN)
    parts = [(ranges, rules.value[first[ranges]], rules.value[first[ranges] + 1], 0, 0)]
    member = np.repeat(rules.kind == IN, sizes)
    parts.append((np.repeat(points, sizes[points]), rules.value[member], rules.value[member], 0, 0))
    rows = [[np.broadcast_to(np.asarray(column), len(part[0])) for column in part] for part in parts]
    for test in np.flatnonzero(rules.kind == NOT_IN).tolist():
        values = np.unique(rules.value[first[test] : first[test] + sizes[test]])
        gaps = len(values) + 1
        sides = np.ones(gaps, np.int8)
        ends = (np.append(0, values), np.append(values, 0), sides.copy(), sides)
        ends[2][0] = ends[3][-1] = 2
        rows.append([np.full(gaps, test), *ends])
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return tuple(column[order] for column in columns)


def segments(count: int = 1_000_000, events: int = 1024) -> Segments:
    rng = np.random.default_rng(20240604)
    tested = rng.random((count, 8)) < TESTED
    while (few := tested.sum(axis=1) < 3).any():
        tested[few] |= rng.random((int(few.sum()), 8)) < TESTED
    attribute = np.nonzero(tested)[1].astype(np.int32)
    kind, size = np.full(len(attribute), BETWEEN, np.int8), np.full(len(attribute), 2)
    for place in range(6):
        chosen = np.flatnonzero(attribute == place)
        size[chosen] = rng.integers(1, LARGEST_SET[place] + 1, len(chosen))
        kind[chosen] = rng.random(len(chosen)) < NEGATED[place]
    value_offsets = np.concatenate([[0], np.cumsum(size)])
    value, of = np.empty(value_offsets[-1], np.int32), np.repeat(attribute, size)
    for place in range(6):
        value[of == place] = zipf_ranks(rng, VOCABULARY[place], int((of == place).sum()), SKEW)
    for place, lowest, widest in ((6, 13, 30), (7, 0, 12)):
        chosen = value_offsets[:-1][attribute == place]
        low = rng.integers(lowest, VOCABULARY[place] - 4, len(chosen))
        value[chosen] = low
        value[chosen + 1] = np.minimum(low + rng.integers(2, widest, len(chosen)), VOCABULARY[place] - 1)
    drawn = [zipf_ranks(rng, VOCABULARY[place], events, SKEW).astype(np.int32) for place in range(6)]
    drawn += [rng.integers(13, 100, events).astype(np.int32), rng.integers(0, 24, events).astype(np.int32)]
    offsets = np.concatenate([[0], np.cumsum(tested.sum(axis=1))])
    return Segments(offsets, attribute, kind, value_offsets, value, np.stack(drawn, axis=1))
