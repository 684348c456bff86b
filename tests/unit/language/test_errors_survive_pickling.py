"""An error crosses process boundaries with its type, fields and text."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from ray_pubsub import errors
from ray_pubsub.errors import Rejection

SYNTAX = errors.ExpressionSyntaxError("x =", 3, "end", ("a number", "a 'string'"))
SENSE = errors.ExpressionTypeError("x = y", "two attributes are compared")

ONE_OF_EACH = [
    errors.RayPubSubError("a"),
    errors.ExpressionError("a"),
    SYNTAX,
    SENSE,
    errors.ExpressionLimitError("leaves", 10_000, 10_001),
    errors.SubscriptionIdError(1.5),
    errors.MetadataError("data", "too long"),
    errors.RuleFormatError("sigma", "no detection"),
    errors.UnknownSubscriptionError("s1"),
    errors.RejectedSubscriptionsError([Rejection(0, "s1", SYNTAX), Rejection(3, 7, SENSE)]),
    errors.EventError("price", "too odd", 3),
    errors.EventError(None, "not a dict").at(5),
    errors.TableError("id", "missing"),
    errors.EventSchemaError((("tags", "array<string>", "no attribute holds a list"), ("x.y", "binary", "no kind"))),
    errors.SettingError("engine", "unknown"),
    errors.IndexFileError("/tmp/x", "damaged"),
    errors.UnknownLevelError("urgent", ("low", "high")),
    errors.UnknownRuleError("r1"),
    errors.StoreError("/tmp/x", "the disk is full"),
    errors.UnavailableError("shard 1", "did not answer within 5 s"),
    errors.UnknownServerError("other", ("default", "test"), "10.0.0.1:6379"),
    errors.UnavailableError("the registry", "has ended", died=True, gone=True),
    errors.ServerClosedError("default", "closed"),
    errors.ServerReleaseError("default", "0.9", 1, "1.0", 2),
    errors.ClusterError(None, "no Ray cluster runs on this machine"),
    errors.FencedError("registry", 3, 4),
    errors.OverloadedError("coordinator", 12, 0.5),
    errors.MissingExtraError("Ray", "server"),
]


def test_there_is_one_of_each() -> None:
    public = {getattr(errors, name) for name in errors.__all__} - {Rejection, errors.UnknownSubscriberWarning}
    assert {type(error) for error in ONE_OF_EACH} == public


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling(error: errors.RayPubSubError, protocol: int) -> None:
    assert_same_error(pickle.loads(pickle.dumps(error, protocol)), error)


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_an_error_survives_copying(error: errors.RayPubSubError) -> None:
    assert_same_error(copy.copy(error), error)
    assert_same_error(copy.deepcopy(error), error)


def assert_same_error(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    assert (str(one), repr(one), one.args) == (str(other), repr(other), other.args)
    ours, theirs = dict(vars(one)), dict(vars(other))
    for left, right in zip(ours.pop("rejections", []), theirs.pop("rejections", []), strict=True):
        assert (left.position, left.id) == (right.position, right.id)
        assert_same_error(left.error, right.error)
    assert ours == theirs
