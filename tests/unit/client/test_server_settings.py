"""How a server is set up: kept and read again, changed, and refused."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from actors.server_settings import ServerSettings
from ray_pubsub import Limits
from ray_pubsub.errors import SettingError
from ray_pubsub.priority import Bins, Categories, Function

OTHER = ServerSettings(
    shards=5,
    coordinators=2,
    engine="dexin",
    options={"cache": 8},
    limits=Limits(text_length=99),
    levels=("a", "b"),
    confirm=False,
    priority={"signatures": 1 << 13, "discretizers": {"t": Bins([1, 2.5]), "s": Categories(["x"])}},
    mailbox={"capacity": 7, "overflow": "drop-oldest", "deadlines": {"b": 0.5}},
    max_in_flight=3,
    max_in_flight_bytes=1000,
    patience=0.5,
    timeout=7.0,
    lease=1.5,
)


@pytest.mark.parametrize("settings", [ServerSettings(), OTHER])
def test_kept_and_read_again(settings: ServerSettings) -> None:
    state = msgpack.unpackb(msgpack.packb(settings.state()))
    assert ServerSettings.of_state(state) == settings
    assert ServerSettings.of_state({**state, "of a later release": 1}) == settings
    del state["lease"]
    assert ServerSettings.of_state(state).lease == ServerSettings().lease


def test_changed() -> None:
    assert OTHER.changed({"shards": 9}).shards == 9
    assert OTHER.changed({}) == OTHER
    assert ServerSettings(levels=["x", "y"]).levels == ("x", "y")  # type: ignore[arg-type]
    assert OTHER.mailbox_settings().levels == ("a", "b")
    assert OTHER.mailbox_settings().capacity == 7
    assert OTHER.mailbox_settings().deadlines == {"b": 0.5}
    assert OTHER.priority_rules().signatures == 1 << 13 and not OTHER.priority_rules().confirm


def test_deadlines_unless_others_are_given() -> None:
    graded = ServerSettings().mailbox_settings().deadlines
    assert graded == {"low": 1000.0, "normal": 100.0, "high": 10.0, "critical": 1.0}
    assert ServerSettings(mailbox={"deadlines": None}).mailbox_settings().deadlines is None


@pytest.mark.parametrize(
    "given",
    [
        {"unknown": 1},
        {"priority": {"rate": 0.5}},
        {"priority": {"false_positive_rate": 2}},
        {"priority": {"discretizers": {"t": Function(int, 5)}}},
        {"shards": 0},
        {"shards": True},
        {"shards": 1e3},
        {"shards": 2000},
        {"coordinators": 65},
        {"engine": "none"},
        {"engine": 5},
        {"options": {"cache": 8}},
        {"options": [1]},
        {"limits": {"text_length": 5}},
        {"levels": ()},
        {"levels": "low"},
        {"levels": ["a", "a"]},
        {"confirm": 1},
        {"mailbox": None},
        {"mailbox": {"policy": None}},
        {"mailbox": {"levels": ["a"]}},
        {"mailbox": {"deadlines": {"nobody": 1}}},
        {"mailbox": {"window": -1}},
        {"max_in_flight": 0},
        {"max_in_flight_bytes": -1},
        {"patience": 0},
        {"timeout": float("inf")},
        {"lease": float("nan")},
    ],
)
def test_what_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        ServerSettings().changed(given)
