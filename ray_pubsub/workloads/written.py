"""Subscriptions of OpIndex's last experiments that are no plain conjunctions of ranges, written as texts: sets of values (section 7.5),
prefixes (section 7.7), and conjunctive and disjunctive forms (section 7.6)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.distributions import distinct_in_rows, zipf_ranks
from ray_pubsub.workloads.sparse_tests import products

__all__ = ["Written", "forms", "prefixes", "product_sets"]

NUMERIC, TEXTUAL = 10_000, 100
"""Attributes of section 7.7."""
VOCABULARY = 20_000
SYLLABLES = [first + second for first in "bcdfghklmnprstvw" for second in ("a", "e", "i", "o", "u", "an", "er")]


@dataclass(frozen=True, slots=True)
class Written:
    """A workload whose subscriptions are texts: texts[i] is subscription i."""

    name: str
    texts: list[str]
    events: list[dict[str, Any]]


def prefixes(
    subscriptions: int, share: float = 0.5, length: int = 3, *, largest: int = 8, event_size: int = 60, events: int = 200,
    seed: int = 1,
) -> Written:  # fmt: skip
    """A test is with probability `share` a prefix of `length` letters, on one of 100 attributes with words, else `=` on one of 10,000 with
    numbers."""
    rng = np.random.default_rng(seed)
    words = _words(rng)
    sizes = rng.integers(1, largest + 1, subscriptions)
    numeric = distinct_in_rows(rng, NUMERIC, (subscriptions, largest), 0.0)
    textual = distinct_in_rows(rng, TEXTUAL, (subscriptions, largest), 0.0)
    is_prefix = rng.random((subscriptions, largest)) < share
    operand = rng.integers(1, 51, (subscriptions, largest))
    word = zipf_ranks(rng, VOCABULARY, (subscriptions, largest), 1.0)
    texts = []
    for number, size in enumerate(sizes.tolist()):
        parts = [
            f"t{textual[number, place]} like '{words[word[number, place]][:length]}%'"
            if is_prefix[number, place]
            else f"a{numeric[number, place]} = {operand[number, place]}"
            for place in range(size)
        ]
        texts.append(" and ".join(parts))
    carried = distinct_in_rows(rng, NUMERIC, (events, event_size), 0.0).tolist()
    values = rng.integers(1, 51, (events, event_size)).tolist()
    carried_words = distinct_in_rows(rng, TEXTUAL, (events, min(event_size, TEXTUAL) // 2), 0.0)
    word_ranks = zipf_ranks(rng, VOCABULARY, carried_words.shape, 1.0)
    event_list: list[dict[str, Any]] = []
    for row, numbers, text_attributes, ranks in zip(
        carried, values, carried_words.tolist(), word_ranks.tolist(), strict=True
    ):
        event: dict[str, Any] = {f"a{attribute}": value for attribute, value in zip(row, numbers, strict=True)}
        event |= {f"t{attribute}": words[rank] for attribute, rank in zip(text_attributes, ranks, strict=True)}
        event_list.append(event)
    return Written("prefixes", texts, event_list)


def product_sets(subscriptions: int = 1_000_000, largest: int = 8, *, events: int = 400, seed: int = 1) -> Written:
    """Returns the subscriptions of `products` with a set of two to six values, by Zipf's law, in the place of each value."""
    made = products(subscriptions, largest, events=events, seed=seed)
    rng = np.random.default_rng(seed)
    others = zipf_ranks(rng, 50, (len(made.low), 5), 1.0) + 1
    counts = rng.integers(1, 6, len(made.low)).tolist()
    tests = []
    for attribute, value, more, count in zip(
        made.attribute.tolist(), made.low.tolist(), others.tolist(), counts, strict=True
    ):
        values = {value, *more[:count]}
        if len(values) == 1:
            values.add(value % 50 + 1)
        tests.append(f"a{attribute} in ({', '.join(map(str, sorted(values)))})")
    bounds = made.offsets.tolist()
    texts = [" and ".join(tests[first:last]) for first, last in pairwise(bounds)]
    return Written("product sets", texts, made.event_dicts())


def forms(
    subscriptions: int, form: Literal["cnf", "dnf"], clauses: int = 5, *, dimensions: int = 20_000, event_size: int = 60,
    events: int = 200, seed: int = 1,
) -> Written:  # fmt: skip
    """From 1 to `clauses` clauses of 1 to 3 tests each: a conjunction of disjunctions, or a disjunction of conjunctions."""
    rng = np.random.default_rng(seed)
    inner, outer = (" or ", " and ") if form == "cnf" else (" and ", " or ")
    counts = rng.integers(1, clauses + 1, subscriptions).tolist()
    sizes = rng.integers(1, 4, (subscriptions, clauses)).tolist()
    attribute = rng.integers(0, dimensions, (subscriptions, clauses, 3)).tolist()
    operator = np.array(["=", "<=", ">="])[rng.choice(3, (subscriptions, clauses, 3), p=[0.4, 0.3, 0.3])].tolist()
    operand = rng.integers(1, 51, (subscriptions, clauses, 3)).tolist()
    texts = []
    for number, count in enumerate(counts):
        parts = []
        for clause in range(count):
            tests = zip(attribute[number][clause], operator[number][clause], operand[number][clause], strict=True)
            written = [f"a{name} {sign} {value}" for name, sign, value in tests][: sizes[number][clause]]
            parts.append("(" + inner.join(written) + ")")
        texts.append(outer.join(parts))
    carried = distinct_in_rows(rng, dimensions, (events, event_size), 0.0).tolist()
    values = rng.integers(1, 51, (events, event_size)).tolist()
    made = [{f"a{name}": value for name, value in zip(*row, strict=True)} for row in zip(carried, values, strict=True)]
    return Written(form, texts, made)


def _words(rng: np.random.Generator) -> NDArray[np.str_]:
    """Returns a vocabulary of two to four syllables a word; like real words, many share their first letters."""
    chosen = zipf_ranks(rng, len(SYLLABLES), (VOCABULARY, 4), 0.7)
    lengths = rng.integers(2, 5, VOCABULARY)
    return np.array(
        [
            "".join(SYLLABLES[part] for part in row[:size])
            for row, size in zip(chosen.tolist(), lengths.tolist(), strict=True)
        ]
    )
