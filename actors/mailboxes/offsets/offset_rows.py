"""The deliveries of one mailbox by their sequence numbers. Not thread-safe: `OffsetReading` holds the lock."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from actors.mailboxes.delivery import DeliveryColumns
from actors.mailboxes.delivery_runs import by_mailbox
from actors.mailboxes.mailbox import Mailbox
from actors.mailboxes.offsets.offset_mailbox import OffsetMailbox
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.state import MailboxState
from actors.mailboxes.store.delivery_chunk import Chunk
from actors.mailboxes.store.store import MailboxStore

__all__ = ["OffsetRows"]


class OffsetRows:
    """The mailboxes that are read by sequence numbers. Used under the lock of all mailboxes."""

    def __init__(self, store: MailboxStore, settings: MailboxSettings, state: MailboxState) -> None:
        self._store, self._settings, self._state = store, settings, state

    @property
    def newest(self) -> int:
        """The highest sequence number so far. Every later delivery has a higher one."""
        return self._state.log.newest

    def is_read_so(self, subscriber: str | int) -> bool:
        state = self._state
        return (state.names.get(subscriber) if isinstance(subscriber, int) else subscriber) in state.by_offset

    def begin(self, subscriber: str) -> bool:
        """Switches a mailbox to offset reading. Returns False if it already is. Earlier receipts are no longer valid."""
        state = self._state
        if subscriber in state.by_offset:
            return False
        before = self._box(subscriber)
        state.by_offset.add(subscriber)
        self._store.queue(self._store.read_by_offset(subscriber, True))
        if before is not None:
            box = OffsetMailbox(self._settings, state.now)
            box.take_over(before)
            state.boxes[state.codes[subscriber]] = box
            for chunk, rows in self.live(subscriber, 0, inf):
                box.hold(len(rows), int(chunk.sizes()[rows].sum()))
        return True

    def end(self, subscriber: str) -> int:
        """Switches a mailbox back to polling. Returns the number of deliveries that wait."""
        state, before = self._state, self._box(subscriber)
        if subscriber in state.by_offset:
            found = self.live(subscriber, 0, inf)
            state.by_offset.discard(subscriber)
            self._store.queue(self._store.read_by_offset(subscriber, False))
            if before is not None:
                box = Mailbox(self._settings, state.now)
                for chunk, rows in found:
                    waits = np.zeros(len(chunk), bool)
                    waits[rows] = True
                    for _, enqueued, runs in by_mailbox(chunk, waits):
                        box.enter(runs, enqueued, admitted=True)
                box.take_over(before)
                state.boxes[state.codes[subscriber]] = box
        now = self._box(subscriber)
        return 0 if now is None else len(now)

    def live(self, subscriber: str, after: float, up_to: float) -> list[tuple[Chunk, NDArray[np.int64]]]:
        """Returns the rows in a range of sequence numbers, chunk by chunk, without dead letters."""
        box = self._box(subscriber)
        if box is None:
            return []
        found = list(self._state.log.of_subscriber(self._state.codes[subscriber], after, up_to))
        dead = box.dead_numbers()
        if not dead:
            return found
        kept = [(chunk, rows[~np.isin(chunk.sequence[rows], dead)]) for chunk, rows in found]
        return [(chunk, rows) for chunk, rows in kept if len(rows)]

    def columns(self, subscriber: str, after: float, up_to: float) -> DeliveryColumns:
        found = self.live(subscriber, after, up_to)
        sequence = np.concatenate([np.empty(0, np.int64), *(chunk.sequence[rows] for chunk, rows in found)])
        levels = np.concatenate([np.empty(0, np.int16), *(chunk.levels[rows] for chunk, rows in found)])
        enqueued = np.concatenate([np.empty(0), *(chunk.enqueued[chunk.events[rows]] for chunk, rows in found)])
        facts = self._state.log.facts(sequence)
        return DeliveryColumns(
            subscriber=subscriber,
            subscriber_code=self._state.codes.get(subscriber, -1),
            levels=tuple(self._settings.levels),
            lease=0,
            visible_until=inf,
            sequence=sequence,
            subscription_id=facts.subscriptions,
            event_id=facts.event_ids,
            content=facts.contents,
            level=levels,
            enqueued=enqueued,
            due=np.full(len(sequence), inf),
            attempt=np.ones(len(sequence), np.int32),
        )

    def settle(self, subscriber: str, sequence: int) -> tuple[int, int]:
        """Settles everything up to this number. Returns the number of deliveries, and a ticket to commit by."""
        box = self._box(subscriber)
        found = self.live(subscriber, 0, sequence) if isinstance(box, OffsetMailbox) else []
        numbers: list[int] = []
        for chunk, rows in found:
            numbers += chunk.sequence[rows].tolist()
            assert isinstance(box, OffsetMailbox)
            box.let_go(len(rows), int(chunk.sizes()[rows].sum()))
        had_failed = box.failed_among(numbers) if box is not None else []
        self._state.emptied(subscriber)
        return len(numbers), self._state.settle(numbers, had_failed)

    def _box(self, subscriber: str) -> Mailbox | None:
        code = self._state.codes.get(subscriber)
        return None if code is None else self._state.boxes.get(code)
