"""The part of a `Server` that calls the registry: subscriptions and rules are added, removed and listed."""

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
"""The deadline of calls that may take long, in seconds."""


class RegistryClient(ABC):
    """The methods of `Server` that call the registry. Safe to use from several threads."""

    registry: Any
    """The registry's Ray actor handle, to be called directly with .remote()."""
    settings: ServerSettings

    @abstractmethod
    def _check_open(self) -> None:
        """Raises ServerClosedError if the server was stopped or closed here."""

    def _ask(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Calls a method of the registry, again while its process restarts. Requests that change something carry an idempotency key, so
        that they are done once."""
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
        """Adds a subscription, or replaces the one with this id, and returns the id. When this method returns, the subscription is on disk
        (with a `data_dir`), and every publication that begins later sees it. Raises ExpressionError if the expression is not valid.

        `data` is a small JSON value (at most 4,096 bytes) that is returned with matches and deliveries on request; `tags` are names by
        which subscriptions can be selected. Raises MetadataError if one of them is not valid.
        """
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
        """Adds many subscriptions, either `ids` with `expressions`, or a pyarrow Table, RecordBatch or pandas DataFrame in place of the
        ids. The table has the columns id, subscriber and expression, or a row per interval with id, subscriber, attribute, low and high
        (as in MatchIndex.add_predicates).

        `subscriber` is the subscriber of all of them, in place of a column; with `ids` it may also be a list with one for each. `data` and
        `tags` are as in `subscribe`: a dict, or a list of texts, for all of them; or a list with one for each; or the table's columns data
        (JSON) and tags.

        Bad subscriptions are reported by position, and the others are added. With `atomic=True` a single bad one raises
        RejectedSubscriptionsError and none is added. `progress` shows a progress bar; by default it is shown on a terminal if there are
        many subscriptions.
        """
        self._check_open()
        return load_subscriptions(
            partial(self._ask, timeout=LONG), ids, expressions, subscriber, data, tags, atomic, progress
        )

    def unsubscribe(self, id: str | int) -> bool:
        """Removes a subscription. Returns False if it did not exist. No publication that begins later sees it."""
        return bool(self._ask("unsubscribe", id, new_request()))

    def unsubscribe_many(self, ids: Iterable[str | int] | None = None, *, tag: str | None = None) -> int:
        """Removes many subscriptions in one step: those with these ids, or all that have a tag. Returns the number that existed. Raises
        SubscriptionIdError and removes nothing if one of the ids is not a valid id."""
        self._check_open()
        if (ids is None) == (tag is None):
            raise SettingError("ids", "must be given, or a tag instead")
        if ids is None:
            return int(self._ask("unsubscribe_many", None, new_request(), tag, timeout=LONG))
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise SettingError("ids", f"must be several ids, not {ids!r}; unsubscribe() takes one")
        return int(self._ask("unsubscribe_many", list(ids), new_request(), timeout=LONG))

    def subscription(self, id: str | int) -> StoredSubscription:
        """Returns the subscription with this id. Raises UnknownSubscriptionError if there is none."""
        found: StoredSubscription = self._ask("get", id)
        return found

    def subscribers(self) -> list[str]:
        """Returns the names of all subscribers that the server knows, in the order of their first subscriptions."""
        return list(self._ask("subscriber_names").values())

    def subscriptions(
        self, subscriber: str | None = None, *, tag: str | None = None, page: int = 1000
    ) -> Iterator[StoredSubscription]:
        """Yields the subscriptions of one subscriber, or of all, in the order in which they were added; with `tag`, only those that have
        it. `page` is the number requested per call, of which the registry sends at most 10,000."""
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
        """Returns the data and tags of these subscriptions."""
        found: list[Metadata | None] = self._ask("metadata", list(ids))
        return found

    # ------------------------------------------------------------------------------------------------------------ priorities

    def prioritize(self, id: str | int, level: str, expression: str) -> None:
        """Adds or replaces a priority rule. Events that match it have at least this level."""
        self._ask("prioritize", id, level, expression, new_request())

    def prioritize_many(
        self,
        ids: Any,
        levels: Iterable[str] | None = None,
        expressions: Iterable[str] | None = None,
        *,
        atomic: bool = False,
    ) -> AddReport:
        """Adds many rules in one step, either `ids` with `levels` and `expressions`, or a pyarrow Table, RecordBatch or pandas DataFrame
        in place of the ids, with the columns id, level and expression. Bad rules are reported by position, and the others are added.
        With `atomic=True` a single bad one raises RejectedSubscriptionsError and none is added."""
        self._check_open()
        rules = list(zip(*as_lists(ids=ids, levels=levels, expressions=expressions), strict=True))
        report: AddReport = self._ask("prioritize_many", rules, atomic, new_request(), timeout=LONG)
        return report

    def unprioritize(self, id: str | int) -> bool:
        """Removes a priority rule. Returns False if it did not exist."""
        return bool(self._ask("remove_rule", id, new_request()))

    def rules(self) -> list[Rule]:
        """Returns all priority rules."""
        found: list[Rule] = self._ask("rules")
        return found
