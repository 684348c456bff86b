"""Following the arrivals of all mailboxes at once."""

from __future__ import annotations

import threading

from actors.mailboxes import arrivals as module
from actors.mailboxes.arrivals import Arrivals
from actors.mailboxes.mailboxes import Mailboxes


def name(mailbox: object) -> str:
    return str(mailbox)


def test_nothing_is_recorded_until_somebody_follows() -> None:
    arrivals = Arrivals()
    arrivals.record("a")
    first = arrivals.since(None, name)
    assert first is not None and first.subscribers is None  # look everywhere, once
    assert arrivals.since(first.after, name) is None
    arrivals.record("b")
    arrivals.record("a")
    arrivals.record("b")
    found = arrivals.since(first.after, name)
    assert found is not None and found.subscribers == ("b", "a")
    assert arrivals.since(found.after, name) is None


def test_a_follower_that_is_late_looks_everywhere(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    arrivals = Arrivals()
    first = arrivals.since(None, name)
    assert first is not None
    for mailbox in range(4):
        arrivals.record(mailbox)
    late = arrivals.since(first.after, name)
    assert late is not None and late.subscribers is None
    restarted = Arrivals()
    restarted.since(None, name)
    other = restarted.since(late.after, name)
    assert other is not None and other.subscribers is None


def test_a_call_waits_for_the_next_arrival() -> None:
    boxes = Mailboxes()
    after = boxes.arrivals().after
    assert boxes.arrivals(after).subscribers == ()
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(boxes.arrivals(after, 30.0).subscribers))
    waiting.start()
    boxes.release("ann", [])
    waiting.join(30)
    assert found == [("ann",)]
