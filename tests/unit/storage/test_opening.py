"""Opening a store: again and again until it succeeds, with the true error until then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from actors.storage import opening
from actors.storage.opening import Opening
from ray_pubsub.errors import SettingError, StoreError, UnavailableError


class Disk:
    """Raises what it is given, then opens."""

    def __init__(self, *errors: Exception) -> None:
        self.errors: Iterator[Exception] = iter(errors)
        self.opened = threading.Event()

    def __call__(self) -> str:
        for error in self.errors:
            raise error
        self.opened.set()
        return "a store"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "RETRY_EVERY", 0.0)


def test_what_opens_at_once() -> None:
    found = Opening(Disk(), "the registry")
    assert found.get() == found.get() == found.close() == "a store"


def test_it_comes_back_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    full = [StoreError("file", "the disk is full")] * 5
    disk = Disk(*full, ValueError("a mistake of ours"), StoreError("file", "is missing"))
    found = Opening(disk, "the registry")
    assert disk.opened.wait(60)
    assert found.close() == "a store"
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len([message for message in messages if "the disk is full" in message]) == 1  # not at every attempt
    assert any("a mistake of ours" in message for message in messages)


def test_the_true_error_is_raised_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "RETRY_EVERY", 3600.0)
    found = Opening(Disk(StoreError("file", "the disk is full")), "the registry")
    raised = []
    for _ in range(2):
        with pytest.raises(StoreError, match="the disk is full") as caught:
            found.get()
        raised.append(caught.value)
    assert raised[0] is not raised[1]  # each has its own traceback
    assert found.close() is None


def test_a_wrong_setting_is_not_tried_again() -> None:
    disk = Disk(SettingError("levels", "there is no such level"))
    found = Opening(disk, "the registry")
    found._thread.join(60)
    with pytest.raises(SettingError, match="no such level"):
        found.get()
    assert not disk.opened.is_set()


def test_an_attempt_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FIRST_ATTEMPT", 0.0)
    go_on = threading.Event()
    found = Opening(go_on.wait, "the registry")
    with pytest.raises(UnavailableError, match="still opening"):
        found.get()
    go_on.set()
    assert found.close() is True
    assert found.get() is True
