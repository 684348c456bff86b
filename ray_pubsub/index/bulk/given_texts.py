"""Checks and parses many subscriptions before an index is locked: the good ones, and why the others are refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ray_pubsub.engines.contract import Source
from ray_pubsub.errors import RayPubSubError, Rejection
from ray_pubsub.index.bulk.text_batch import TextBatch, are_worth_compiling
from ray_pubsub.language.shapes import Expression, ShapeCache
from ray_pubsub.model.arguments import are_ids, check_id
from ray_pubsub.model.as_list import as_lists
from ray_pubsub.model.metadata import Described, Metadata, described
from ray_pubsub.settings import Limits

__all__ = ["GivenTexts", "read_texts"]


class GivenTexts(NamedTuple):
    """Subscriptions that can be added, in columns, and those that cannot, by position."""

    ids: Sequence[str | int]
    sources: Sequence[Source]
    metadata: Sequence[Metadata | None] | None
    """None if no subscription has metadata."""
    rejections: list[Rejection]


def read_texts(
    given: Any, texts: Iterable[str] | None, data: Any, tags: Any, shapes: ShapeCache, limits: Limits, *, compiled: bool
) -> GivenTexts:
    """Reads the arguments of `MatchIndex.add_many`. `compiled`: the index uses clauses, to which many texts are compiled together."""
    ids, expressions = as_lists(ids=given, expressions=texts)
    carried = described(ids, given, data, tags)
    if compiled and are_worth_compiling(expressions):
        batch = TextBatch(expressions, shapes, limits)
        batch.refuse(carried.rejections if carried else ())
        good, refused = batch.accept(ids)
        return GivenTexts(good, batch, _of_good(carried, refused), refused)
    parsed_all = shapes.parse_many(expressions)
    rejections = {rejection.position: rejection for rejection in carried.rejections} if carried else {}
    if not rejections and are_ids(ids) and set(map(type, parsed_all)) <= {Expression}:
        return GivenTexts(ids, parsed_all, _of_good(carried, ()), [])  # type: ignore[arg-type]
    sources: list[Source] = []
    for position, (identity, parsed) in enumerate(zip(ids, parsed_all, strict=True)):
        try:
            check_id(identity)
            if isinstance(parsed, RayPubSubError):
                raise parsed
        except RayPubSubError as error:
            rejections[position] = Rejection(position, identity, error)
            continue
        if position not in rejections:
            sources.append(parsed)
    good = [identity for position, identity in enumerate(ids) if position not in rejections]
    refused = [rejections[position] for position in sorted(rejections)]
    return GivenTexts(good, sources, _of_good(carried, refused), refused)


def _of_good(carried: Described | None, refused: Sequence[Rejection]) -> Sequence[Metadata | None] | None:
    if carried is None or not refused:
        return None if carried is None else carried.metadata
    bad = {rejection.position for rejection in refused}
    return [each for position, each in enumerate(carried.metadata) if position not in bad]
