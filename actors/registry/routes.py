"""Parses expressions to routes: decides whether an expression is valid, and which attributes an event must carry to match it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from actors.registry.columns import ShardColumns
from ray_pubsub.columns.integer_cutter import IntegerCutter
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.settings import Limits
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import PivotChooser, PivotColumn, Route
from ray_pubsub.sharding.text_routes import TextsToRoute

__all__ = ["Routes"]

TEXTS_FOR_KERNELS = 16
"""The number of expressions from which on kernels parse them together."""


class Routes:
    """Chooses routes. Safe to use from several threads. Which attributes make good routes is learned from the events that coordinators
    see."""

    def __init__(self, limits: Limits, kept: dict[str, Any] | None, *, ignore_case: bool = False) -> None:
        """`kept` is the state of the frequencies that an earlier instance had learned. `ignore_case` is the server's setting."""
        self._kept = AttributeFrequencies.of_state(kept) if kept else AttributeFrequencies()
        self._learned: dict[int, AttributeFrequencies] = {}
        self._limits = limits
        self._shapes = ShapeCache(limits, cutter=IntegerCutter(), ignore_case=ignore_case)
        self._ignore_case = ignore_case
        self._chooser = PivotChooser()
        self._chooser.refresh(self._kept)
        self._lock = threading.Lock()

    def route(self, expression: str) -> Route:
        """Returns the route of an expression. Raises ExpressionError."""
        with self._lock:
            return self._chooser.route(self._shapes.parse(expression))

    def routes(self, expressions: Sequence[str]) -> list[Route | RayPubSubError]:
        """Returns for each expression its route, or the error that `route` would raise. Many expressions are parsed by kernels, whatever
        their shapes, and without the lock."""
        found: list[Route | RayPubSubError | None] = [None] * len(expressions)
        if len(expressions) >= TEXTS_FOR_KERNELS:
            texts = TextsToRoute(expressions, self._limits, ignore_case=self._ignore_case)
            with self._lock:
                found = [*texts.routes(self._chooser)]
        for place, route in enumerate(found):
            if route is None:
                try:
                    found[place] = self.route(expressions[place])
                except RayPubSubError as error:
                    found[place] = error
        return found  # type: ignore[return-value]

    def of_rows(self, predicates: Any) -> PivotColumn:
        """Returns the routes of subscriptions given as intervals."""
        with self._lock:
            return self._chooser.routes_of_rows(predicates)

    def chosen_again(self, columns: ShardColumns) -> list[Route]:
        """Returns the routes that stored subscriptions would get now, in the order of `all_numbers`."""
        with self._lock:
            uses = self._chooser.uses.copy()
        chooser = PivotChooser(self.frequencies().frequencies(), uses)
        texts = columns.expressions
        found = TextsToRoute(texts, self._limits, ignore_case=self._ignore_case).routes(chooser)
        for place, route in enumerate(found):
            if route is None:
                with self._lock:
                    parsed = self._shapes.parse(texts[place])
                found[place] = chooser.route(parsed)
        for block in columns.intervals:
            rows = PredicateTable(block.table)
            pivots = chooser.routes_of_rows(rows)
            of_number = dict(zip(np.asarray(rows.ids).tolist(), pivots.code.tolist(), strict=True))
            found += [pivots.routes[of_number[number]] for number in block.numbers.tolist()]
        return found  # type: ignore[return-value]

    def learn(self, coordinator: int, state: dict[str, Any]) -> None:
        """Takes over what a coordinator has learned of the events' attributes so far."""
        learned, before = AttributeFrequencies.of_state(state), self._learned.get(coordinator)
        if before is not None and learned.observed < before.observed:  # it has restarted, and begins again
            self._kept = self._kept.faded_by([before])
            self._kept.merge(before)
        self._learned[coordinator] = learned
        frequencies = self.frequencies()
        with self._lock:
            self._chooser.refresh(frequencies)

    def frequencies(self) -> AttributeFrequencies:
        """Returns what all coordinators have learned, merged with what remains of earlier knowledge."""
        every = list(self._learned.values())
        known = self._kept.faded_by(every)
        for learned in every:
            known.merge(learned)
        return known
