"""The part of a `Server` that asks the registry: subscriptions and rules, added, removed and listed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from actors.client.loading import load_subscriptions
from actors.client.preparing import new_request
from actors.registry.columns import LARGEST_PAGE, Rule, StoredSubscription
from actors.server_settings import ServerSettings
from actors.transport.calls import Deadline, answer, retried, sent
from ray_pubsub.errors import SettingError
from ray_pubsub.model.add_report import AddReport
from ray_pubsub.model.arguments import check_text, check_whole
from ray_pubsub.model.as_list import as_lists
from ray_pubsub.model.metadata import Metadata, check_tag

__all__ = ["LONG", "RegistryClient"]

LONG = 600.0
"""Seconds for what may take long."""


class RegistryClient(ABC):
    """Safe to use from several threads."""

    registry: Any
    """The handle of a Ray actor, to be called directly with .remote()."""
    settings: ServerSettings

    @abstractmethod
    def _check_open(self) -> None:
        """Raises ServerClosedError if the server was stopped or closed here."""

    def _ask(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Asks the registry, again while its process restarts. What changes something carries an idempotency key, and is done once."""
        self._check_open()

        def call(left: float) -> Any:
            return answer(sent(getattr(self.registry, method), *arguments), "the registry", left)

        return retried(call, Deadline(self.settings.timeout if timeout is None else timeout))

    # ------------------------------------------------------------------------------------------------------------ subscribing

    def subscribe(
        self,
        subscriber: str,
        expression: str,
        *,
        id: str | int | None = None,
        data: Any = None,
        tags: Iterable[str] = (),
    ) -> str | int:
        """Adds a subscription, or replaces the one with this id; returns the id. When it returns, the subscription is on disk (with a
        `data_dir`), and every publication that begins later sees it. Raises an ExpressionError that says what is wrong. `data`: a small
        JSON value (at most 4,096 bytes) that comes back with matches and deliveries on request; `tags`: names by which subscriptions
        are selected. Raises MetadataError."""
        identity = new_request() if id is None else id
        tags = tags if isinstance(tags, str) else tuple(tags)
        self._ask("subscribe", subscriber, expression, identity, new_request(), data, tags)
        return identity

    def subscribe_many(
        self,
        ids: Any,
        expressions: Iterable[str] | None = None,
        *,
        subscriber: str | Iterable[str] | None = None,
        data: Any = None,
        tags: Any = None,
        atomic: bool = False,
        progress: bool | None = None,
    ) -> AddReport:
        """Adds many: `ids` with `expressions`; or instead of the ids a pyarrow Table, RecordBatch or pandas DataFrame with the columns id,
        subscriber and expression, or with a row per interval: id, subscriber, attribute, low, high (as MatchIndex.add_predicates).
        `subscriber`: of all of them, instead of a column; with `ids` also one for each. `data`, `tags`: as for `subscribe`; a dict, or a
        list of texts, for all of them, or a list with one for each; or columns of the table: data (JSON) and tags.

        The bad ones are in the report, by position, and the others are added; with `atomic=True` a single bad one raises
        RejectedSubscriptionsError, and none is added. `progress`: a progress bar; by default on a terminal, if there are many."""
        self._check_open()
        return load_subscriptions(
            partial(self._ask, timeout=LONG), ids, expressions, subscriber, data, tags, atomic, progress
        )

    def unsubscribe(self, id: str | int) -> bool:
        """Removes a subscription; False if there was none. No publication that begins later sees it."""
        return bool(self._ask("unsubscribe", id, new_request()))

    def unsubscribe_many(self, ids: Iterable[str | int] | None = None, *, tag: str | None = None) -> int:
        """Removes many in one step, these or those that have a tag; returns the number that were stored. If one of the ids is none, raises
        SubscriptionIdError and removes nothing."""
        self._check_open()
        if (ids is None) == (tag is None):
            raise SettingError("ids", "must be given, or a tag instead")
        if ids is None:
            return int(self._ask("unsubscribe_many", None, new_request(), tag, timeout=LONG))
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise SettingError("ids", f"must be several ids, not {ids!r}; unsubscribe() takes one")
        return int(self._ask("unsubscribe_many", list(ids), new_request(), timeout=LONG))

    def subscription(self, id: str | int) -> StoredSubscription:
        """One subscription. Raises UnknownSubscriptionError."""
        found: StoredSubscription = self._ask("get", id)
        return found

    def subscribers(self) -> list[str]:
        """The names of all subscribers that the server knows, in the order of their first subscriptions."""
        return list(self._ask("subscriber_names").values())

    def subscriptions(
        self, subscriber: str | None = None, *, tag: str | None = None, page: int = 1000
    ) -> Iterator[StoredSubscription]:
        """All of one subscriber, or of everybody, in the order they were added; those that have a tag, if one is given. `page`: how many
        are asked for at a time, of which the registry sends 10,000 at most."""
        self._check_open()
        if subscriber is not None:
            check_text("subscriber", subscriber)
        if tag is not None:
            check_tag(tag)
        return self._pages(subscriber, tag, min(check_whole("page", page, 1), LARGEST_PAGE))

    def _pages(self, subscriber: str | None, tag: str | None, page: int) -> Iterator[StoredSubscription]:
        after: int | None = 0
        while after is not None:
            found = self._ask("page", subscriber, after, page, tag)
            yield from found.items
            after = found.after

    def _lookup(self, ids: Sequence[str | int]) -> list[Metadata | None]:
        """What subscriptions carry."""
        found: list[Metadata | None] = self._ask("metadata", list(ids))
        return found

    # ------------------------------------------------------------------------------------------------------------ priorities

    def prioritize(self, id: str | int, level: str, expression: str) -> None:
        """Adds or replaces a rule: events that match it have at least this level."""
        self._ask("prioritize", id, level, expression, new_request())

    def prioritize_many(
        self,
        ids: Any,
        levels: Iterable[str] | None = None,
        expressions: Iterable[str] | None = None,
        *,
        atomic: bool = False,
    ) -> AddReport:
        """Adds many rules in one step: `ids` with `levels` and `expressions`; or instead of the ids a pyarrow Table, RecordBatch or pandas
        DataFrame with the columns id, level and expression. The bad ones are in the report, by position, and the others are added; with
        `atomic=True` a single bad one raises RejectedSubscriptionsError, and none is added."""
        self._check_open()
        rules = list(zip(*as_lists(ids=ids, levels=levels, expressions=expressions), strict=True))
        report: AddReport = self._ask("prioritize_many", rules, atomic, new_request(), timeout=LONG)
        return report

    def unprioritize(self, id: str | int) -> bool:
        """Removes a rule; False if there was none."""
        return bool(self._ask("remove_rule", id, new_request()))

    def rules(self) -> list[Rule]:
        """All rules."""
        found: list[Rule] = self._ask("rules")
        return found
