"""Converts subscriptions in any of the accepted forms to ids, expressions, and the index that is sent to Spark's workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray_pubsub import MatchIndex
from ray_pubsub.errors import (
    RayPubSubError,
    RejectedSubscriptionsError,
    Rejection,
    SettingError,
    SubscriptionIdError,
    TableError,
)
from ray_pubsub.model.arguments import check_id

__all__ = ["GivenSubscriptions", "given_subscriptions"]


@dataclass(frozen=True, slots=True)
class GivenSubscriptions:
    """The valid subscriptions in the order given, an index in which each has its number as id, and the rejected ones."""

    ids: list[str | int]
    expressions: list[str]
    index: MatchIndex
    rejections: list[Rejection]


def given_subscriptions(given: Any) -> GivenSubscriptions:
    """Reads one expression; a list of them (their ids are 0, 1, …) or a dict by id; a MatchIndex, whose limits and `ignore_case` are
    kept; or a pyarrow, pandas or Spark table with the columns id and expression. As in an index, the last valid one of an id counts.
    Raises if none is valid."""
    if isinstance(given, str):
        MatchIndex().add(0, given)  # a single bad expression is raised, not reported
    ids, expressions = _listed(given)
    if not ids:
        raise SettingError("subscriptions", "there is none")
    rejected: dict[int, RayPubSubError] = {}
    for position, identity in enumerate(ids):
        try:
            check_id(identity)
        except SubscriptionIdError as error:
            rejected[position] = error
    index = _new_index(given)
    report = index.add_many(range(len(ids)), expressions)
    rejected |= {
        rejection.position: rejection.error for rejection in report.rejections if rejection.position not in rejected
    }
    rejections = [Rejection(position, ids[position], error) for position, error in sorted(rejected.items())]
    last = {ids[position]: position for position in range(len(ids)) if position not in rejected}
    if not last:
        raise RejectedSubscriptionsError(rejections)
    good = sorted(last.values())
    if len(good) < len(ids):  # the numbers must have no gaps
        index = _new_index(given)
        index.add_many(range(len(good)), [expressions[position] for position in good], atomic=True)
    return GivenSubscriptions([ids[at] for at in good], [expressions[at] for at in good], index, rejections)


def _new_index(given: Any) -> MatchIndex:
    return (
        MatchIndex(limits=given.limits, ignore_case=given.ignore_case)
        if isinstance(given, MatchIndex)
        else MatchIndex()
    )


def _listed(given: Any) -> tuple[list[Any], list[Any]]:
    if isinstance(given, str):
        return [0], [given]
    if isinstance(given, Mapping):
        return list(given), list(given.values())
    if isinstance(given, MatchIndex):
        return list(given), [given.expression(identity) for identity in given]
    if isinstance(given, list | tuple):
        return list(range(len(given))), list(given)
    if hasattr(given, "sparkSession"):  # a DataFrame, classic or Connect
        for name in ("id", "expression"):
            if name not in given.columns:
                raise TableError(name, "missing; subscriptions have the columns id and expression")
        given = given.select("id", "expression").toArrow()
    if hasattr(given, "to_pydict"):
        columns = {name: given.column(name).to_pylist() for name in ("id", "expression") if name in given.schema.names}
    elif hasattr(given, "columns"):
        columns = {name: given[name].tolist() for name in ("id", "expression") if name in given.columns}
    else:
        raise SettingError(
            "subscriptions",
            f"an expression, a list or dict of them, a MatchIndex, or a table with id and expression, not {type(given).__name__}",
        )
    for name in ("id", "expression"):
        if name not in columns:
            raise TableError(name, "missing; subscriptions have the columns id and expression")
    return columns["id"], columns["expression"]
