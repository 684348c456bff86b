"""Finds the shards that a batch must visit: those with a pivot that occurs in the batch, and those with universal subscriptions."""

from __future__ import annotations

from collections.abc import Iterable

from ray_pubsub.errors import SettingError
from ray_pubsub.sharding.pivots import Route

__all__ = ["ShardRoutes"]

MOST_LAYOUTS, LONGEST_LAYOUT = 1024, 256
"""How many answers are cached: batches of few attributes repeat."""


class ShardRoutes:
    """Per shard, how many subscriptions have which pivots. One writer at a time; readers need not wait for it.

    >>> routes = ShardRoutes(2)
    >>> routes.add(0, Route(("price",)))
    >>> routes.add(1, Route(("model", "colour")))
    >>> routes.visited(["price", "weight"]), routes.visited(["colour", "price"]), routes.visited([])
    ((0,), (0, 1), ())
    """

    def __init__(self, shards: int) -> None:
        if not isinstance(shards, int) or shards < 1:
            raise SettingError("shards", f"must be a whole number of at least 1, not {shards!r}")
        self.shards = shards
        self._counts: list[dict[str, int]] = [{} for _ in range(shards)]
        self._universal = [0] * shards
        self._masks: dict[str, int] = {}
        """For each pivot, a bit per shard that has it. Readers use this and the next two."""
        self._universal_mask = 0
        self._known: dict[tuple[str, ...], tuple[int, ...]] = {}

    def add(self, shard: int, route: Route, count: int = 1) -> None:
        """Counts this number of subscriptions of the route on the shard. Call it before they can match there."""
        if count < 1:
            return
        if route.universal:
            self._universal[shard] += count
            self._set_universal(shard, True)
        counts = self._counts[shard]
        for attribute in route.attributes:
            known = counts.get(attribute, 0)
            counts[attribute] = known + count
            if not known:
                self._masks[attribute] = self._masks.get(attribute, 0) | 1 << shard
                self._known = {}

    def remove(self, shard: int, route: Route, count: int = 1) -> None:
        """Subtracts this number of subscriptions of the route, which must be the route they were added with."""
        counts = self._counts[shard]
        for attribute in route.attributes:
            if counts.get(attribute, 0) < count:
                raise SettingError(
                    "routes", f"shard {shard} has no {count} subscriptions under {attribute!r} to remove"
                )
        if route.universal:
            if self._universal[shard] < count:
                raise SettingError("routes", f"shard {shard} has no {count} universal subscriptions to remove")
            self._universal[shard] -= count
            self._set_universal(shard, self._universal[shard] > 0)
        for attribute in route.attributes:
            counts[attribute] -= count
            if not counts[attribute]:
                del counts[attribute]
                self._drop(shard, attribute)

    def clear(self, shard: int) -> None:
        """Forgets the content of a shard, which is then added again."""
        counts, self._counts[shard] = self._counts[shard], {}
        for attribute in counts:
            self._drop(shard, attribute)
        self._universal[shard] = 0
        self._set_universal(shard, False)

    def pivots(self, shard: int) -> dict[str, int]:
        """Returns how many subscriptions each pivot of a shard has."""
        return dict(self._counts[shard])

    def universal(self, shard: int) -> int:
        """Returns how many universal subscriptions a shard has."""
        return self._universal[shard]

    def visited(self, attributes: Iterable[str]) -> tuple[int, ...]:
        """Returns the shards that may have a match for events with these attributes, ascending."""
        known = self._known  # read before the masks, so that no cached answer is older than the cache it is in
        key = tuple(attributes)
        found = known.get(key)
        if found is None:
            mask, every, masks = self._universal_mask, (1 << self.shards) - 1, self._masks
            for attribute in key:
                mask |= masks.get(attribute, 0)
                if mask == every:
                    break
            found = tuple(shard for shard in range(self.shards) if mask >> shard & 1)
            if len(known) < MOST_LAYOUTS and len(key) <= LONGEST_LAYOUT:
                known[key] = found
        return found

    def _drop(self, shard: int, attribute: str) -> None:
        mask = self._masks[attribute] & ~(1 << shard)
        if mask:
            self._masks[attribute] = mask
        else:
            del self._masks[attribute]
        self._known = {}

    def _set_universal(self, shard: int, there: bool) -> None:
        mask = self._universal_mask & ~(1 << shard) | (there << shard)
        if mask != self._universal_mask:
            self._universal_mask = mask
            self._known = {}
