"""What a program hands to a server is checked in the program, before any process is asked."""

from __future__ import annotations

import math
from typing import Any

import pytest

from actors.client.consuming import Consumer
from actors.client.publishing import PublishOptions
from actors.transport.protocol import PROTOCOL, check_protocol, own_protocol
from ray_pubsub.errors import ServerReleaseError, SettingError
from ray_pubsub.model.arguments import check_name


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("event_id", value) for value in (["x"], 5, b"x", "", "\ud800")),
        *((flag, value) for flag in ("deliver", "strict") for value in (None, 1, "yes")),
        *(("idempotency_key", value) for value in (5, ["r"], "", b"r", "a\x1f1", "k" * 201)),
        *(("timeout", value) for value in (0, -1, "1", True, math.nan, math.inf)),
    ],
)
def test_a_publication(setting: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        PublishOptions(**{setting: value})
    assert caught.value.setting == setting


def test_a_good_publication() -> None:
    PublishOptions()
    PublishOptions("sku", False, True, 0.5, "r1")


class Nobody:
    """Mailboxes that must not be asked."""

    def __getattr__(self, method: str) -> Any:
        raise AssertionError(f"asked to {method}")


class OpenConsumer(Consumer):
    """A consumer of an open server whose mailboxes must not be asked."""

    def __init__(self) -> None:
        self.mailboxes = Nobody()

    def _check_open(self) -> None:
        pass

    def _lookup(self, ids: Any) -> list[Any]:
        raise AssertionError("asked for metadata")


@pytest.mark.parametrize("delay", [-1, "1", None, math.nan])
def test_settling_nothing_in_a_wrong_way(delay: Any) -> None:
    consumer = OpenConsumer()
    with pytest.raises(SettingError, match="delay"):
        consumer.nack([], delay=delay)
    with pytest.raises(SettingError, match="seconds"):
        consumer.extend([], delay)


@pytest.mark.parametrize("sequences", [5, "5", [5, "6"], [True], object()])
def test_dead_letters_are_named_by_a_list(sequences: Any) -> None:
    consumer = OpenConsumer()
    for call in (consumer.redrive, consumer.purge_dead):
        with pytest.raises(SettingError, match="sequences"):
            call("desk-1", sequences)


@pytest.mark.parametrize("name", ["", None, 5, "\ud800"])
def test_a_subscriber_has_a_name(name: Any) -> None:
    with pytest.raises(SettingError, match="subscriber"):
        check_name("subscriber", name)


def test_releases_may_differ_and_protocols_may_not() -> None:
    check_protocol("s", {**own_protocol(), "release": "99.0"})
    with pytest.raises(
        ServerReleaseError,
        match=rf"runs ray-pubsub 99\.0 \(protocol {PROTOCOL + 1}\).*install 99\.0 or a later one for this program",
    ) as caught:
        check_protocol("s", {"release": "99.0", "protocol": PROTOCOL + 1})
    assert (caught.value.protocol, caught.value.own_protocol) == (PROTOCOL + 1, PROTOCOL)
    with pytest.raises(ServerReleaseError, match="stop the server and start it with"):  # one that does not tell
        check_protocol("s", {"settings": {}})
