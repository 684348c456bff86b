"""The public surface, name by name: a name that comes or goes is a decision, made here."""

from __future__ import annotations

import inspect
import pickle
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

import ray_pubsub
from actors.mailboxes.settings import MailboxSettings
from actors.server_settings import MailboxOptions, PriorityOptions, ServerSettings
from ray_pubsub import errors
from ray_pubsub.engines.registry import ENGINES
from tests.house.source_tree import ROOT

EXAMPLES: list[errors.RayPubSubError] = [
    errors.ExpressionSyntaxError("x =", 3, "end", ("a number",)),
    errors.ExpressionTypeError("x = 'a'", "no reason"),
    errors.ExpressionLimitError("leaves", 1, 2),
    errors.SubscriptionIdError(None),
    errors.MetadataError("data", "too large"),
    errors.RuleFormatError("Sigma", "keywords"),
    errors.UnknownSubscriptionError("s"),
    errors.UnknownLevelError("urgent", ("low", "high")),
    errors.UnknownRuleError("r"),
    errors.RejectedSubscriptionsError([errors.Rejection(0, "s", errors.SubscriptionIdError(None))]),
    errors.EventError("x", "no reason", 3),
    errors.TableError("id", "missing"),
    errors.EventSchemaError((("tags", "array<string>", "no attribute holds a list"),)),
    errors.SettingError("engine", "unknown"),
    errors.IndexFileError("file", "cut short"),
    errors.StoreError("file", "the disk is full"),
    errors.UnavailableError("shard 1", "did not answer"),
    errors.UnknownServerError("other", ("default",), "auto"),
    errors.ServerClosedError("default", "stopped"),
    errors.ServerReleaseError("default", "0.9", 1, "1.0", 2),
    errors.MissingExtraError("Ray", "server"),
    errors.ClusterError("10.0.0.5:6379", "nothing listens there"),
    errors.FencedError("file", 1, 2),
    errors.OverloadedError("writes", 1000, 0.5),
]


def error_classes() -> dict[str, type[errors.RayPubSubError]]:
    found = inspect.getmembers(
        errors, lambda thing: inspect.isclass(thing) and issubclass(thing, errors.RayPubSubError)
    )
    return {name: kind for name, kind in found if kind.__module__ == errors.__name__}


def test_public_names() -> None:
    assert ray_pubsub.__all__ == [
        "AckReport",
        "AddReport",
        "DeadLetter",
        "Delivered",
        "Delivery",
        "Explanation",
        "IndexPlan",
        "IndexStats",
        "Limits",
        "MailboxOptions",
        "MailboxStats",
        "MatchBatch",
        "MatchIndex",
        "Measurement",
        "PriorityBatch",
        "PriorityExplanation",
        "PriorityOptions",
        "PriorityRules",
        "PriorityStats",
        "PublishResult",
        "RayPubSubError",
        "RebalanceReport",
        "Rejection",
        "Rule",
        "Server",
        "ServerPlan",
        "ServerStats",
        "StoredSubscription",
        "connect",
        "errors",
        "start",
        "warm_up",
    ]
    assert [name for name in ray_pubsub.__all__ if not hasattr(ray_pubsub, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'stat'"):
        ray_pubsub.stat  # noqa: B018


def test_completion_finds_what_is_public_and_nothing_else() -> None:
    found = [name for name in dir(ray_pubsub) if not name.startswith("_")]
    assert set(ray_pubsub.__all__) <= set(found)
    others = [getattr(ray_pubsub, name) for name in found if name not in ray_pubsub.__all__]
    assert [other for other in others if not getattr(other, "__name__", "").startswith("ray_pubsub.")] == []


def test_every_setting_of_a_server_is_a_keyword_that_is_explained() -> None:
    explained = inspect.getdoc(ray_pubsub.start) or ""
    settings = inspect.signature(ServerSettings).parameters
    assert set(settings) <= set(inspect.signature(ray_pubsub.start).parameters)
    assert [name for name in settings if not re.search(rf"^ *{name}: ", explained, re.MULTILINE)] == []
    options = MailboxOptions.__annotations__
    assert [name for name in options if name not in explained or name not in (MailboxOptions.__doc__ or "")] == []
    assert set(options) <= {each.name for each in fields(MailboxSettings)}
    of_rules = PriorityOptions.__annotations__
    assert [name for name in of_rules if name not in explained or name not in (PriorityOptions.__doc__ or "")] == []
    assert set(of_rules) <= set(inspect.signature(ray_pubsub.PriorityRules).parameters)


def test_every_option_of_an_engine_is_a_keyword_that_is_explained() -> None:
    options = {option for entry in ENGINES.values() for option in entry.options}
    explained = inspect.getdoc(ray_pubsub.MatchIndex.__init__) or ""
    assert options <= set(inspect.signature(ray_pubsub.MatchIndex).parameters)
    assert [name for name in options if f"`{name}`" not in explained] == []


def public_functions() -> Iterator[tuple[str, Any]]:
    for name in ray_pubsub.__all__:
        thing = getattr(ray_pubsub, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            methods = inspect.getmembers(thing, inspect.isfunction)
            yield from ((f"{name}.{method}", found) for method, found in methods if not method.startswith("_"))


def test_every_public_name_is_explained() -> None:
    things = [(name, getattr(ray_pubsub, name)) for name in ray_pubsub.__all__]
    assert [name for name, thing in [*things, *public_functions()] if not inspect.getdoc(thing)] == []


def test_a_signature_tells_what_can_be_given() -> None:
    """No **keywords that an editor cannot complete, and no default that says nothing to a reader."""
    vague = [
        name
        for name, function in public_functions()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD or "object at 0x" in repr(parameter.default)
    ]
    assert vague == []


def test_result_types_are_checked_by_mypy() -> None:
    """`typed_program.py` is among the files that mypy checks; a public name that is Any fails it."""
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert "tests" in {*checked.get("packages", ()), *checked.get("files", ())}
    assert checked["strict"] is True
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package in ("ray_pubsub", "actors", "spark_bridge"):
        assert "py.typed" in package_data[package]
        assert (ROOT / package / "py.typed").exists()


def test_every_error_is_public() -> None:
    assert errors.__all__ == sorted({*error_classes(), "Rejection", "UnknownSubscriberWarning"})


def test_the_drawing_of_the_errors_is_the_tree_of_classes() -> None:
    """Each line of the docstring's tree: its depth by the branches before it, its parent the last line less deep."""
    drawn: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"((?:│   |    )*(?:├── |└── )?)([A-Z]\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            del above[depth:]
            drawn[found[2]] = above[-1] if above else None
            above.append(found[2])
    parents: dict[str, str | None] = {
        name: next((base.__name__ for base in kind.__bases__ if base.__name__ in error_classes()), None)
        for name, kind in error_classes().items()
    }
    assert drawn == parents


def test_there_is_an_example_of_every_error() -> None:
    leaves = {name for name, kind in error_classes().items() if not kind.__subclasses__()}
    assert {type(example).__name__ for example in EXAMPLES} == leaves


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_carry_fields_and_survive_pickling(error: errors.RayPubSubError) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert shown(copied) == shown(error) != {}


def shown(error: errors.RayPubSubError) -> dict[str, Any]:
    return {name: str(value) for name, value in vars(error).items()}
