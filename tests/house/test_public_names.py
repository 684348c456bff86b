"""The public surface, name by name: a name that comes or goes is a decision, made here."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import Any

import pytest

import ray_pubsub
from actors.server_settings import ServerSettings
from ray_pubsub import errors

EXAMPLES: list[errors.RayPubSubError] = [
    errors.ExpressionSyntaxError("x =", 3, "end", ("a number",)),
    errors.ExpressionTypeError("x = 'a'", "no reason"),
    errors.ExpressionLimitError("leaves", 1, 2),
    errors.SubscriptionIdError(None),
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
        "AddReport",
        "Limits",
        "MatchBatch",
        "MatchIndex",
        "PriorityRules",
        "RayPubSubError",
        "Server",
        "connect",
        "errors",
        "start",
    ]
    assert [name for name in ray_pubsub.__all__ if not hasattr(ray_pubsub, name)] == []


def test_completion_finds_what_is_public_and_nothing_else() -> None:
    found = [name for name in dir(ray_pubsub) if not name.startswith("_")]
    assert set(ray_pubsub.__all__) <= set(found)
    others = [getattr(ray_pubsub, name) for name in found if name not in ray_pubsub.__all__]
    assert [other for other in others if not getattr(other, "__name__", "").startswith("ray_pubsub.")] == []


def test_help_tells_every_setting_of_a_server() -> None:
    told = inspect.getdoc(ray_pubsub.start) or ""
    settings = inspect.signature(ServerSettings).parameters
    assert [name for name in settings if not re.search(rf"^ *{name}: ", told, re.MULTILINE)] == []


def test_every_public_name_is_explained() -> None:
    assert [name for name in ray_pubsub.__all__ if not inspect.getdoc(getattr(ray_pubsub, name))] == []


def test_every_public_method_is_explained() -> None:
    for kind in (ray_pubsub.MatchIndex, ray_pubsub.MatchBatch, ray_pubsub.PriorityRules, ray_pubsub.Server):
        methods = inspect.getmembers(kind, inspect.isfunction)
        assert [name for name, method in methods if not name.startswith("_") and not method.__doc__] == []


def test_every_error_is_public() -> None:
    assert errors.__all__ == sorted({*error_classes(), "Rejection"})


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
