"""The state of all mailboxes, and the changes of it that the store writes. Not thread-safe: `Mailboxes` holds the lock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from actors.mailboxes.delivery import AckReport, DeadLetter, DeliveryColumns, Receipt, StaleReceipt
from actors.mailboxes.delivery_runs import by_mailbox, groups_of
from actors.mailboxes.mailbox import COUNTED, Dead, Failures, Flight, Mailbox, MailboxRun
from actors.mailboxes.mailbox_table import MailboxTable
from actors.mailboxes.offsets.offset_mailbox import OffsetMailbox
from actors.mailboxes.queue.on_time import LEVEL_COUNTED, LevelStats
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.stats import MailboxStats
from actors.mailboxes.store.delivery_chunk import Chunk
from actors.mailboxes.store.delivery_log import DeliveryLog
from actors.mailboxes.store.store import DeadRow, MailboxStore, Stored
from ray_pubsub.errors import SettingError
from ray_pubsub.failpoints import reach

__all__ = ["Arrival", "MailboxState"]

Arrival = tuple[int, float, list[MailboxRun]]
"""The deliveries that enter one mailbox: its code, the time of publication, and the runs."""


class MailboxState:
    """All mailboxes in memory, with the log of the deliveries in them. Every method is called under the lock of `mailboxes.py`."""

    def __init__(self, store: MailboxStore, settings: MailboxSettings, clock: Callable[[], float]) -> None:
        self.names: dict[int, str] = {}
        self.codes: dict[str, int] = {}
        self.boxes = MailboxTable(self._new_box, self._forget, counts=COUNTED + LEVEL_COUNTED * len(settings.levels))
        self._store = store
        self._settings = settings
        self._levels = tuple(settings.levels)
        self._clock = clock
        self._latest = -inf
        self.log = DeliveryLog()
        self.by_offset: set[str] = set()
        """The subscribers whose mailboxes are read by offset (`offset_reading`)."""
        self._next_lease = (store.epoch << 40) + 1  # leases of two epochs are never equal

    def now(self) -> float:
        self._latest = max(self._latest, float(self._clock()))
        return self._latest

    # Names

    def introduce(self, names: Mapping[int, str]) -> list[str]:
        """Records names of subscribers. Returns those that are new."""
        news = {int(code): name for code, name in names.items() if self.names.get(code) != name}
        self.names.update(news)
        self.codes.update((name, code) for code, name in news.items())
        if news:
            self._store.queue(self._store.named(news))
        return list(news.values())

    def own_codes(self, names: Mapping[int, str]) -> tuple[dict[int, int], dict[int, str]]:
        """Returns the codes that these subscribers have here, by the given codes; and the names that are new, with their codes."""
        own: dict[int, int] = {}
        news: dict[int, str] = {}
        for given, name in names.items():
            code = self.codes.get(name)
            if code is None:
                code = given
                if code in self.names or code in news:
                    code = max((0, *self.names, *news, *names)) + 1
                news[code] = name
            own[given] = code
        return own, news

    def key(self, subscriber: str | int) -> str | int:
        """Returns the code of a subscriber, or the name as long as no code is known."""
        if type(subscriber) is str:
            return self.codes.get(subscriber, subscriber)
        if type(subscriber) is not int:
            raise SettingError("subscriber", f"must be a name or a code, not {subscriber!r}")
        return subscriber

    def name(self, code: int) -> str | int:
        return self.names.get(code, code)

    def named(self, key: Hashable) -> str | int:
        """Returns the name of the mailbox with this key (`key`), if it is known."""
        return self.names.get(key, key) if type(key) is int else str(key)

    def _new_box(self, code: int, counted: Sequence[int] | None) -> Mailbox:
        kind = OffsetMailbox if self.names.get(code) in self.by_offset else Mailbox
        return kind(self._settings, self.now, counted)

    def _forget(self, code: int) -> bool:
        """Forgets the name of an empty mailbox. The name comes again with the next batch that has a delivery for it. A mailbox that is
        read by offset keeps its place."""
        name = self.names.get(code)
        if name in self.by_offset:
            return False
        if name is not None:
            del self.names[code]
            if self.codes.get(name) == code:
                del self.codes[name]
            self._store.queue(self._store.forgotten([code]))
        return True

    def swept_box(self, subscriber: str | int, empty: bool = True) -> Mailbox | None:
        """Returns the mailbox, after everything that is due has come back to it. Returns None if nothing was ever delivered there or,
        with `empty=False`, perhaps also if it is empty."""
        self._store.check()
        code = self.key(subscriber)
        if not isinstance(code, int):
            return None
        box = self.boxes.get(code) if empty else self.boxes.filled(code)
        if box is not None and box.next_sweep <= (now := self.now()):
            self.keep(box.sweep(now))
        return box

    def until_next_sweep(self, subscriber: str | int) -> float:
        """Returns the seconds until something may come back to this mailbox by a timer."""
        code = self.key(subscriber)
        box = self.boxes.filled(code) if isinstance(code, int) else None
        return inf if box is None else max(box.next_sweep - self.now(), 0.0)

    # What comes in

    def refused(self, chunk: Chunk) -> NDArray[np.int64]:
        """Returns the rows that their mailboxes have no room for. The rows that deliver one event to one subscriber fit together or not
        at all, so that what a full mailbox has rejected is known by event and subscriber."""
        full = [group for group in groups_of(chunk) if not self.boxes[group[0]].has_room(group[2] - group[1], group[3])]
        rows: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        if not full:
            return rows[0]
        sizes = chunk.sizes()
        for code, start, stop, _ in full:
            events, firsts, groups, counts = np.unique(
                chunk.events[start:stop], return_index=True, return_inverse=True, return_counts=True
            )
            order = np.argsort(firsts)  # the most urgent first
            own = sizes[start:stop][firsts[order]].tolist()
            refused = self.boxes[code].refused(counts[order].tolist(), own)
            if len(refused) == len(events):
                rows.append(np.arange(start, stop))
            elif len(refused):
                rows.append(start + np.flatnonzero(np.isin(groups, order[np.array(refused)])))
        return np.concatenate(rows)

    def store(self, chunk: Chunk, buried: NDArray[np.int64], now: float) -> tuple[list[Arrival], int]:
        """Adds the chunk's rows to the log; the buried ones become dead letters. Returns the others, which must enter their mailboxes,
        and the number of dead letters that were dropped to make room."""
        self.log.append(chunk)
        if not len(buried):
            return list(by_mailbox(chunk)), 0
        waits = np.ones(len(chunk), bool)
        waits[buried] = False
        arrivals = list(by_mailbox(chunk, waits))
        numbers = chunk.sequence[buried].tolist()
        gone = self._bury(chunk, {number: DeadRow(number, 0, "overflow", now) for number in numbers})
        self.settle(gone, gone, were_dead=gone)
        return arrivals, len(gone)

    def enter(self, arrivals: Iterable[Arrival]) -> int:
        """Puts deliveries into their mailboxes. Returns how many others were dropped to make room."""
        gone: list[int] = []
        for code, enqueued, runs in arrivals:
            gone += self.boxes[code].enter(runs, enqueued)
        self.settle(gone, gone)
        return len(gone)

    def restore(self, stored: Stored) -> None:
        """Fills the mailboxes from a store. Deliveries that were in flight wait again."""
        self.by_offset = set(stored.by_offset)
        self.names = dict(stored.names)
        self.codes = {name: code for code, name in self.names.items()}
        dead = {row.sequence: row for row in stored.dead}
        highest = np.int16(len(self._levels) - 1)
        gone: list[int] = []
        for chunk in stored.chunks:
            chunk.levels = np.minimum(chunk.levels, highest)  # there may have been more levels then
            self.log.append(chunk)
            own = (
                {number: dead[number] for number in dead.keys() & set(chunk.sequence[chunk.live].tolist())}
                if dead
                else {}
            )
            gone += self._bury(chunk, own)
            waits = chunk.live & ~np.isin(chunk.sequence, np.array(list(own), np.int64)) if own else chunk.live
            for code, enqueued, runs in by_mailbox(chunk, waits):
                self.boxes[code].enter(runs, enqueued, admitted=True)
            if stored.attempts:
                owners = zip(chunk.sequence[waits].tolist(), chunk.subscribers[waits].tolist(), strict=True)
                for number, code in owners:
                    if number in stored.attempts:
                        self.boxes[code].remember(number, stored.attempts[number])
        self.settle(gone, gone, were_dead=gone)
        idle = [code for code, name in self.names.items() if code not in self.boxes and name not in self.by_offset]
        for code in idle:
            self.codes.pop(self.names.pop(code), None)
        self._store.queue(self._store.forgotten(idle))

    def _bury(self, chunk: Chunk, dead: Mapping[int, DeadRow]) -> list[int]:
        if not dead:
            return []
        sizes = chunk.sizes()
        gone: list[int] = []
        for row in np.flatnonzero(np.isin(chunk.sequence, np.array(list(dead), np.int64))).tolist():
            number, enqueued = int(chunk.sequence[row]), float(chunk.enqueued[chunk.events[row]])
            letter = dead[number]
            gone += self.boxes[int(chunk.subscribers[row])].bury(
                Dead(
                    number,
                    int(chunk.levels[row]),
                    int(sizes[row]),
                    enqueued,
                    letter.attempts,
                    letter.reason,
                    letter.died,
                )
            )
        return gone

    # What goes out

    def hand_out(self, subscriber: str | int, limit: int, visible: float) -> DeliveryColumns:
        box, code = self.swept_box(subscriber, empty=False), self.key(subscriber)
        flights: list[Flight] = []
        until = self.now() + visible
        lease = self._next_lease
        if box is not None:
            flights, expired = box.hand_out(limit, lease, until)
            self._next_lease += bool(flights)
            if expired:
                self.settle(expired, expired)
                self.emptied(subscriber)
        deliveries = [flight.delivery for flight in flights]
        sequence = np.array([delivery.item for delivery in deliveries], np.int64)
        facts = self.log.facts(sequence)
        return DeliveryColumns(
            subscriber=self.name(code) if isinstance(code, int) else code,
            subscriber_code=code if isinstance(code, int) else -1,
            levels=self._levels,
            lease=lease,
            visible_until=until,
            sequence=sequence,
            subscription_id=facts.subscriptions,
            event_id=facts.event_ids,
            content=facts.contents,
            level=np.array([delivery.level for delivery in deliveries], np.int16),
            enqueued=np.array([delivery.enqueued for delivery in deliveries], np.float64),
            due=np.array([delivery.due for delivery in deliveries], np.float64),
            attempt=np.array([flight.attempt for flight in flights], np.int32),
        )

    def settle(self, sequence: Sequence[int], had_failed: Iterable[int], were_dead: Iterable[int] = ()) -> int:
        """Settles deliveries for good. Returns a ticket to commit by."""
        change = self._store.settled(self.log.settle(sequence), had_failed, were_dead) if len(sequence) else []
        ticket = self._store.queue(change)
        merges = self.log.tidy()
        if merges:
            reach("mailboxes.merge")
            self._store.queue(self._store.merged(merges))
        return ticket

    def emptied(self, subscriber: str | int) -> None:
        """Must be called when deliveries have left a mailbox for good."""
        code = self.key(subscriber)
        if isinstance(code, int):
            self.boxes.emptied(code)

    def keep(self, swept: Failures) -> None:
        """Queues the failures and deaths for the next commit."""
        if swept.failed:
            self._store.queue(self._store.failed(swept.failed))
        if swept.died:
            rows = (DeadRow(dead.sequence, dead.attempts, dead.reason, dead.died) for dead in swept.died)
            self._store.queue(self._store.died(rows))
        if swept.gone:
            self.settle(swept.gone, swept.gone, were_dead=swept.gone)

    def report(self, subscriber: str | int, given: list[Receipt], stale: Iterable[int]) -> AckReport:
        """Returns the report for these receipts, those at the `stale` positions with the reason."""
        code = self.key(subscriber)
        box = self.boxes.filled(code) if isinstance(code, int) else None
        found = []
        for position in stale:
            number, lease = given[position]
            if box is None or not isinstance(code, int) or not 0 < lease < self._next_lease:
                found.append(StaleReceipt(position, given[position], "unknown"))
            else:
                reason = box.why_stale(number, self.log.has_live(number, code))
                found.append(StaleReceipt(position, given[position], reason))
        return AckReport(len(given) - len(found), tuple(found))

    def remove(self, code: int) -> list[int]:
        """Removes the mailbox and its name. Returns the deliveries that were in it."""
        box = self.boxes.remove(code)
        name = self.names.pop(code, None)
        if name is not None and self.codes.get(name) == code:
            del self.codes[name]
        gone = box.everything() if box is not None else []
        if isinstance(box, OffsetMailbox):
            gone += [
                int(number) for chunk, rows in self.log.of_subscriber(code, 0, inf) for number in chunk.sequence[rows]
            ]
            gone = list(dict.fromkeys(gone))
        self._store.queue(self._store.forgotten([code]))
        return gone

    # Looking in

    def dead_letters(self, subscriber: str | int, limit: int | None) -> list[DeadLetter]:
        box, code = self.swept_box(subscriber, empty=False), self.key(subscriber)
        dead = box.dead_letters(limit) if box is not None else []
        if not dead or not isinstance(code, int):
            return []
        facts = self.log.facts(np.array([each.sequence for each in dead], np.int64))
        rows = zip(dead, facts.subscriptions.tolist(), facts.event_ids.tolist(), facts.contents, strict=True)
        return [
            DeadLetter(
                subscriber=self.name(code),
                subscriber_code=code,
                sequence=each.sequence,
                subscription_id=subscription,
                event_id=event,
                content=content,
                level=each.level,
                priority=self._levels[each.level],
                enqueued=each.enqueued,
                attempts=each.attempts,
                reason=each.reason,
                died=each.died,
            )
            for each, subscription, event, content in rows
        ]

    def stats(self, subscriber: str | int) -> tuple[MailboxStats, list[LevelStats]]:
        """Returns the statistics of a mailbox and of its levels."""
        box, code = self.swept_box(subscriber, empty=False), self.key(subscriber)
        known = code if isinstance(code, int) else None
        name = subscriber if known is None else self.name(known)
        if box is None:
            counted = None if known is None or known not in self.boxes else self.boxes.counts(known)
            box = Mailbox(self._settings, self.now, counted)
        return box.stats(name, known)

    def resting_stats(self) -> tuple[MailboxStats, list[LevelStats]]:
        """Returns the sums over the mailboxes that are empty and packed."""
        return Mailbox(self._settings, self.now, self.boxes.resting_counts()).stats("", None)
