"""Checks of arguments. Each raises a SettingError (for ids a SubscriptionIdError) that names the argument and says what it must be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import Any

from ray_pubsub.errors import SettingError, SubscriptionIdError
from ray_pubsub.model.values import INT64_MAX, INT64_MIN

__all__ = [
    "are_ids",
    "check_choice",
    "check_flag",
    "check_id",
    "check_ids",
    "check_key",
    "check_name",
    "check_seconds",
    "check_text",
    "check_whole",
    "is_unicode",
]

LONGEST_KEY = 200


def check_whole(setting: str, value: Any, least: int, most: float = inf) -> int:
    """Checks a whole number within inclusive bounds. True and False are not numbers."""
    if type(value) is not int or not least <= value <= most:
        bounds = f"of at least {least:,}" if most == inf else f"from {least:,} to {most:,}"
        raise SettingError(setting, f"must be a whole number {bounds}, not {value!r}")
    return value


def check_seconds(setting: str, value: Any, *, zero: bool = True, most: float = inf) -> float:
    """Checks a duration in seconds. Infinity is allowed if there is no bound. With `zero=False` it must be greater than 0."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
    if not fits or (value == 0 and not zero):
        least = "of at least 0" if zero else "greater than 0"
        bound = "" if most == inf else f" and at most {most:,.0f}"
        raise SettingError(setting, f"must be a number of seconds {least}{bound}, not {value!r}")
    return float(value)


def check_flag(setting: str, value: Any) -> bool:
    """Checks a bool. Other values that count as true or false are refused."""
    if not isinstance(value, bool):
        raise SettingError(setting, f"must be True or False, not {value!r}")
    return value


def check_choice(setting: str, value: Any, choices: Collection[str]) -> str:
    """Checks that a value is one of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise SettingError(setting, f"must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def check_text(setting: str, value: Any) -> str:
    """Checks a str that can be written as UTF-8; it may be empty."""
    if not isinstance(value, str):
        raise SettingError(setting, f"must be a str, not {type(value).__name__}")
    if not is_unicode(value):
        raise SettingError(setting, "must be valid Unicode")
    return value


def check_name(setting: str, value: Any) -> str:
    """Checks a text that is not empty."""
    if not check_text(setting, value):
        raise SettingError(setting, "must not be empty")
    return str(value)


def check_key(key: Any) -> None:
    """Checks an idempotency key, if there is one: a short text without control characters, because these separate the keys of its
    portions."""
    if key is None:
        return
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise SettingError("idempotency_key", f"must be a printable str of 1 to {LONGEST_KEY} characters")


def check_id(identity: Any) -> None:
    """Checks the id of a subscription or a rule: a str or an int of 64 bits."""
    if type(identity) is int:
        if not INT64_MIN <= identity <= INT64_MAX:
            raise SubscriptionIdError(identity)
    elif type(identity) is not str:
        raise SubscriptionIdError(identity)
    elif not is_unicode(identity):
        raise SubscriptionIdError(identity, "an id must be valid Unicode")


def check_ids(ids: Sequence[Any]) -> None:
    """Checks each of these ids."""
    if not are_ids(ids):
        for identity in ids:
            check_id(identity)


def are_ids(ids: Sequence[Any]) -> bool:
    """Returns whether all are valid ids, as far as a quick check tells: False means that each must be checked."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        return bool(min(ids) >= INT64_MIN and max(ids) <= INT64_MAX)
    return kinds == {str} and all(map(str.isascii, ids))


def is_unicode(text: str) -> bool:
    """Returns whether a str has no lone surrogates, so that it can be written as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
