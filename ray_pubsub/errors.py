"""Every error this library raises, as one tree:

RayPubSubError
├── ExpressionError                 a subscription's text cannot be used
│   ├── ExpressionSyntaxError       it does not parse: position, what was found, what was expected
│   ├── ExpressionTypeError         it parses, but a predicate makes no sense: which one, and why
│   └── ExpressionLimitError        it is larger than a named setting allows
├── SubscriptionIdError             an id that is neither str nor int
├── UnknownSubscriptionError        an id that is not in the index
├── UnknownLevelError               a priority level that the rules do not have
├── UnknownRuleError                an id that no priority rule has
├── MetadataError                   a subscription's data or tags cannot be kept: which of the two, and why
├── RuleFormatError                 a rule of another system cannot be imported: its format, and why
├── RejectedSubscriptionsError      an all-or-nothing bulk add in which some items were bad: all of them
├── EventError                      an event's value cannot be used: attribute, reason, position in the batch
├── TableError                      a table lacks a column or has one of the wrong type
├── EventSchemaError                a DataFrame has columns that hold no values of events: all of them, with their types
├── SettingError                    an argument or setting out of its range
├── IndexFileError                  a saved index that cannot be read: path, reason
├── StoreError                      a server's store cannot be opened, read or written: path, reason
├── UnavailableError                a process of the server does not answer; whether it did what was asked is not known
├── UnknownServerError              no server of this name runs on the cluster
├── ServerClosedError               a Server that this program has stopped or closed is used
├── ServerReleaseError              a server of another release, which this program does not understand
├── MissingExtraError               a part of the library whose dependencies are not installed: which, and how to install them
├── ClusterError                    no way to a Ray cluster: its address, the reason, what to do
├── FencedError                     a later instance has taken over; what this one writes is refused
└── OverloadedError                 too much is waiting; what, how much, and when to try again

Every error carries its facts as fields, so that a program need not read the text, and survives pickling, so that it
crosses process boundaries unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ray_pubsub.caret import SHOWN_CHARACTERS, point_at

__all__ = [
    "ClusterError",
    "EventError",
    "EventSchemaError",
    "ExpressionError",
    "ExpressionLimitError",
    "ExpressionSyntaxError",
    "ExpressionTypeError",
    "FencedError",
    "IndexFileError",
    "MetadataError",
    "MissingExtraError",
    "OverloadedError",
    "RayPubSubError",
    "RejectedSubscriptionsError",
    "Rejection",
    "RuleFormatError",
    "ServerClosedError",
    "ServerReleaseError",
    "SettingError",
    "StoreError",
    "SubscriptionIdError",
    "TableError",
    "UnavailableError",
    "UnknownLevelError",
    "UnknownRuleError",
    "UnknownServerError",
    "UnknownSubscriberWarning",
    "UnknownSubscriptionError",
]


class RayPubSubError(Exception):
    """Base of all errors of this library."""

    def __reduce__(self) -> Any:
        # Exceptions pickle as cls(*args); our constructors take fields instead, so the fields travel.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[RayPubSubError], arguments: tuple[Any, ...], fields: dict[str, Any]) -> RayPubSubError:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(fields)
    return error


def _message(error: RayPubSubError) -> str:
    return str(error.args[0])


class ExpressionError(RayPubSubError):
    """A subscription's text cannot be used."""


class ExpressionSyntaxError(ExpressionError):
    """The text does not parse. The message shows the place with a caret."""

    def __init__(
        self, expression: str, position: int, found: str, expected: tuple[str, ...], reason: str = "", hint: str = ""
    ) -> None:
        self.expression = expression
        self.position = position
        self.found = shortened(found)
        self.expected = expected
        self.reason = reason or f"unexpected {self.found}"
        self.hint = hint
        """A suggestion what to write instead, if there is one."""
        *first, last = expected or ("",)
        wanted = f"\nexpected {', '.join(first)}{' or ' if first else ''}{last}" if expected else ""
        advice = f"\n{hint}" if hint else ""
        super().__init__(f"{self.reason} at position {position}\n{point_at(expression, position)}{wanted}{advice}")


class ExpressionTypeError(ExpressionError):
    """The text parses, but a predicate compares things that cannot be compared or holds a bad constant. The message shows the place with
    a caret."""

    def __init__(self, predicate: str, reason: str, place: int | None = None) -> None:
        self.predicate = shortened(predicate)
        self.reason = shortened(reason)
        self.expression: str | None = None
        self.position: int | None = None
        """Where in the expression the predicate, the term or the constant at fault is; None if what is refused is not a text."""
        self._place = place
        super().__init__(f"{self.reason} in: {self.predicate}")

    def located(self, expression: str, position: int) -> ExpressionTypeError:
        """Returns the error with its place in the expression: the place that it was made with, or else this position."""
        if self.position is None:
            self.expression = expression
            self.position = position if self._place is None or self._place < 0 else self._place
            shown = point_at(expression, self.position)
            self.args = (f"{self.reason} in: {self.predicate}, at position {self.position}\n{shown}",)
        return self


class ExpressionLimitError(ExpressionError):
    """The expression is larger than a setting of `Limits` allows."""

    def __init__(self, limit: str, allowed: int, found: int) -> None:
        self.limit = limit
        self.allowed = allowed
        self.found = found
        super().__init__(
            f"the expression's {limit.replace('_', ' ')}: {found:,}, the limit is {allowed:,}; "
            f"split the subscription or raise Limits.{limit}"
        )


class SubscriptionIdError(RayPubSubError):
    """A subscription id that is neither str nor int."""

    def __init__(self, id: object, reason: str = "a subscription id is a str or an int of 64 bits") -> None:
        self.id = id
        self.reason = reason
        super().__init__(f"{reason}, not {id!r} ({type(id).__name__})")


class MetadataError(RayPubSubError, ValueError):
    """A subscription's `data` or `tags` cannot be stored."""

    def __init__(self, part: str, reason: str) -> None:
        self.part = part
        self.reason = reason
        super().__init__(f"{part}: {reason}")


class RuleFormatError(RayPubSubError, ValueError):
    """A rule of another system cannot be expressed, or is not well-formed: the format, and which part of the rule, why."""

    def __init__(self, format: str, reason: str) -> None:
        self.format = format
        self.reason = reason
        super().__init__(f"{format}: {reason}")


class UnknownSubscriptionError(RayPubSubError, KeyError):
    """There is no subscription with this id."""

    def __init__(self, id: str | int) -> None:
        self.id = id
        super().__init__(f"there is no subscription {id!r}")

    __str__ = _message  # KeyError would show its repr


class UnknownLevelError(RayPubSubError, ValueError):
    """There is no priority level of this name."""

    def __init__(self, level: object, levels: tuple[str, ...]) -> None:
        self.level = level
        self.levels = levels
        super().__init__(f"there is no level {level!r}; choose one of {', '.join(map(repr, levels))}")


class UnknownRuleError(RayPubSubError, KeyError):
    """There is no priority rule with this id."""

    def __init__(self, id: str | int) -> None:
        self.id = id
        super().__init__(f"there is no rule {id!r}")

    __str__ = _message  # KeyError would show its repr


@dataclass(frozen=True, slots=True)
class Rejection:
    """One bad item of a bulk operation: its position in the input, its id, and why."""

    position: int
    id: Any
    error: RayPubSubError

    def at(self, position: int) -> Rejection:
        """Returns the same, at another position."""
        return Rejection(position, self.id, self.error)

    def __str__(self) -> str:
        return f"#{self.position} ({self.id!r}): {self.error}"


class RejectedSubscriptionsError(RayPubSubError):
    """An all-or-nothing bulk add was refused because of these items; nothing was added."""

    def __init__(self, rejections: list[Rejection]) -> None:
        self.rejections = rejections
        shown = "\n".join(str(rejection) for rejection in rejections[:10])
        more = f"\n… and {len(rejections) - 10} more in .rejections" if len(rejections) > 10 else ""
        super().__init__(f"none was added because of {counted(len(rejections), 'bad subscription')}:\n{shown}{more}")


class EventError(RayPubSubError):
    """An event cannot be used: the attribute at fault, the reason, and the event's position in its batch."""

    def __init__(self, attribute: str | None, reason: str, position: int | None = None) -> None:
        self.attribute = attribute
        self.reason = reason
        self.position = position
        where = "" if position is None else f"event {position}: "
        what = "" if attribute is None else f"attribute {attribute!r}: "
        super().__init__(f"{where}{what}{reason}")

    def at(self, position: int) -> EventError:
        return EventError(self.attribute, self.reason, position)


class TableError(RayPubSubError):
    """A table lacks a needed column, or a column has the wrong type."""

    def __init__(self, column: str | None, reason: str) -> None:
        self.column = column
        self.reason = reason
        super().__init__(f"column {column!r}: {reason}" if column is not None else reason)


class EventSchemaError(RayPubSubError):
    """Columns of a DataFrame are of types that no attribute has. Nothing was read."""

    def __init__(self, problems: tuple[tuple[str, str, str], ...]) -> None:
        self.problems = problems
        """(column, its type, why it cannot be used); a column inside a struct or map is named by its path."""
        shown = "\n".join(f"  {column} ({kind}): {reason}" for column, kind, reason in problems[:10])
        more = f"\n  … and {len(problems) - 10} more in .problems" if len(problems) > 10 else ""
        what = "1 column cannot" if len(problems) == 1 else f"{len(problems)} columns cannot"
        super().__init__(
            f"{what} be part of events; drop what is listed, cast it, or name the others in columns=[…]:\n{shown}{more}"
        )


class SettingError(RayPubSubError, ValueError):
    """An argument or setting is out of its range."""

    def __init__(self, setting: str, reason: str) -> None:
        self.setting = setting
        self.reason = reason
        super().__init__(f"{setting}: {reason}")


class IndexFileError(RayPubSubError):
    """A saved index cannot be read. Nothing of it was loaded."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class StoreError(RayPubSubError):
    """The file in which a server keeps its state cannot be opened, read or written. What was being written is not in it."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class UnavailableError(RayPubSubError):
    """A process of the server did not answer in time, died or is restarting. Whether it has done what it was asked is not known; to ask
    again, with the same id, does no harm, and is of use unless it is `gone`."""

    def __init__(self, who: str, reason: str, died: bool = False, gone: bool = False) -> None:
        self.who = who
        self.reason = reason
        self.died = died
        self.gone = gone
        """It does not come back: the server was stopped."""
        super().__init__(f"{who}: {reason}")


class UnknownServerError(RayPubSubError, KeyError):
    """No server of this name runs on the cluster."""

    def __init__(self, name: str, running: tuple[str, ...], address: str) -> None:
        self.name = name
        self.running = running
        self.address = address
        there = (
            f"there are {', '.join(map(repr, running))}"
            if running
            else "none runs there; ray_pubsub.start(…) or `ray-pubsub start` starts one"
        )
        super().__init__(f"no server {name!r} runs on the Ray cluster at {address}; {there}")

    __str__ = _message  # KeyError would show its repr


class UnknownSubscriberWarning(UserWarning):
    """A subscriber is polled that has never subscribed, and for which nothing waits. It may subscribe later; or its name is misspelt, and
    nothing will ever come."""

    def __init__(self, subscriber: str, similar: tuple[str, ...] = ()) -> None:
        self.subscriber = subscriber
        self.similar = similar
        guess = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        super().__init__(f"nobody has subscribed as {subscriber!r}, so nothing is delivered to it{guess}")


class ServerClosedError(RayPubSubError):
    """This program has stopped the server, or let go of it. Nothing was done."""

    def __init__(self, name: str, how: str) -> None:
        self.name = name
        self.how = how
        """stopped, or closed."""
        super().__init__(f"the server {name!r} was {how} here; call ray_pubsub.start(…) or connect(…) again")


class ServerReleaseError(RayPubSubError):
    """The server and this program have releases of ray-pubsub that do not understand each other."""

    def __init__(self, name: str, release: str, protocol: int, own_release: str, own_protocol: int) -> None:
        self.name = name
        self.release = release
        self.protocol = protocol
        self.own_release = own_release
        self.own_protocol = own_protocol
        older = f"install {release} or a later one for this program"
        if protocol < own_protocol:
            older = f"stop the server and start it with {own_release}, which takes over its data_dir"
        super().__init__(
            f"the server {name!r} runs ray-pubsub {release} (protocol {protocol}), this program has {own_release} "
            f"(protocol {own_protocol}): {older}"
        )


class MissingExtraError(RayPubSubError, ImportError):
    """A part of the library is used whose dependencies are not installed."""

    __str__ = _message  # ImportError would show its own `msg`, which a copy lacks

    def __init__(self, what: str, extra: str, reason: str = "") -> None:
        self.what = what
        self.extra = extra
        """The name of the extra that has them, as in pip install 'ray-pubsub[server]'."""
        self.reason = reason
        why = f" ({reason})" if reason else ""
        super().__init__(f"{what} is not installed{why}; install it with: pip install 'ray-pubsub[{extra}]'")


class ClusterError(RayPubSubError):
    """This process could not join a Ray cluster. `address` is None if none was given or found."""

    def __init__(self, address: str | None, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(reason if address is None else f"the Ray cluster {address}: {reason}")


class FencedError(RayPubSubError):
    """A later instance has taken over the store (a path, or a role in it). Nothing of the refused write is in it."""

    def __init__(self, store: str, epoch: int, current: int) -> None:
        self.store = store
        self.epoch = epoch
        self.current = current
        super().__init__(
            f"{store}: this instance has the epoch {epoch}, but one with the epoch {current} has taken over; "
            "stop this one, look the actor up again by its name and repeat the request there"
        )


class OverloadedError(RayPubSubError):
    """Too much is waiting already. Try again after `retry_after` seconds. Nothing was done, unless there is an `idempotency_key`: then part
    of a publication may be, and publishing the same events under this key does the rest, and nothing twice."""

    def __init__(
        self, what: str, waiting: int, retry_after: float, published: int = 0, idempotency_key: str | None = None
    ) -> None:
        self.what = what
        self.waiting = waiting
        self.retry_after = retry_after
        self.published = published
        """Events of the publication that are known to be published."""
        self.idempotency_key = idempotency_key
        rest = "" if idempotency_key is None else _unfinished(published, idempotency_key)
        super().__init__(f"{waiting:,} {what} are waiting already; try again in {retry_after:g} s{rest}")

    def unfinished(self, published: int, idempotency_key: str) -> OverloadedError:
        """Returns the same, of a publication of which part may be done."""
        return OverloadedError(self.what, self.waiting, self.retry_after, published, idempotency_key)


def _unfinished(published: int, key: str) -> str:
    return (
        f". {counted(published, 'event')} or more of this publication are published: publish the same events with "
        f"idempotency_key={key!r} to do the rest, and nothing twice"
    )


def shortened(text: str, longest: int = 10 * SHOWN_CHARACTERS) -> str:
    """Returns the text, or its beginning: an error about a megabyte is read by a person too."""
    text = text if len(text) <= longest else text[:longest] + "…"
    return printable(text)


def counted(count: int, noun: str, plural: str = "") -> str:
    """
    >>> counted(1, "subscription"), counted(2000, "match", "matches")
    ('1 subscription', '2,000 matches')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def printable(text: str) -> str:
    """Returns the text with lone surrogates written out: printing an error must not be an error."""
    return text.encode(errors="backslashreplace").decode()
