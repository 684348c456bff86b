"""All mailboxes by subscriber. Of an empty mailbox only its counts are kept, in a row of a matrix: 250 bytes, where a mailbox takes
5,000. Beyond a number of empty mailboxes not even the counts are kept; a mailbox that is needed again is created by its next
delivery."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from actors.mailboxes.count_rows import CountRows
from actors.mailboxes.mailbox import Mailbox

__all__ = ["MailboxTable"]

MOST_IDLE = 1000
"""The number of empty mailboxes that are kept as they are, so that a mailbox that is emptied and filled all the time is not packed each
time."""
MOST_RESTING = 20_000
"""The number of empty mailboxes whose own counts are kept. The others are kept as sums, so that subscribers who come and go leave
nothing behind."""


class MailboxTable:
    """The mailboxes of all subscribers. Not thread-safe: `Mailboxes` holds the lock."""

    def __init__(
        self, create: Callable[[int, list[int] | None], Mailbox], forget: Callable[[int], bool], counts: int
    ) -> None:
        """`create` makes the mailbox of a subscriber, who is given by code, with its earlier counts, of which there are `counts`.
        `forget` is called for an empty mailbox that is to be removed, and returns whether it may be."""
        self._create, self._forget = create, forget
        self._active: dict[int, Mailbox] = {}
        self._idle: OrderedDict[int, None] = (
            OrderedDict()
        )  # active ones that were empty when last looked at, longest ago first
        self._resting = CountRows(counts)
        self._forgotten = [0] * counts

    def __len__(self) -> int:
        return len(self._active) + len(self._resting)

    def __iter__(self) -> Iterator[int]:
        """Yields the codes of subscribers, those with packed mailboxes last."""
        yield from self._active
        yield from self._resting.codes()

    def __contains__(self, code: int) -> bool:
        return code in self._active or code in self._resting

    def __getitem__(self, code: int) -> Mailbox:
        """Returns the mailbox of a subscriber, and creates it if there is none."""
        box = self._active.get(code)
        if box is None:
            counted = self._resting.pop(code) if code in self._resting else None
            box = self._active[code] = self._create(code, counted)
            self._idle[code] = None
        return box

    def __setitem__(self, code: int, box: Mailbox) -> None:
        self._active[code] = box

    def filled(self, code: int) -> Mailbox | None:
        """Returns the mailbox if it may have anything in it, otherwise None."""
        return self._active.get(code)

    def get(self, code: int) -> Mailbox | None:
        """Returns the mailbox if it ever had anything in it, otherwise None."""
        return self[code] if code in self else None  # noqa: SIM401  # this is `get`

    def counts(self, code: int) -> list[int]:
        """Returns the counts of a mailbox that is in the table."""
        return self._active[code].counts() if code in self._active else self._resting[code]

    def active(self) -> list[int]:
        return list(self._active)

    def resting_counts(self) -> list[int]:
        """Returns the sums of the counts of all mailboxes that are packed or forgotten."""
        return [packed + gone for packed, gone in zip(self._resting.sums.tolist(), self._forgotten, strict=True)]

    def emptied(self, code: int) -> None:
        """Must be called when deliveries have left a mailbox. Packs the mailboxes that have been empty for longest if there are many
        empty ones."""
        box = self._active.get(code)
        if box is None or not box.is_empty():
            return
        self._idle[code] = None
        self._idle.move_to_end(code)
        while len(self._idle) > MOST_IDLE:
            oldest, _ = self._idle.popitem(last=False)
            box = self._active.get(oldest)
            if box is not None and box.is_empty():
                self._resting.add(oldest, self._active.pop(oldest).counts())
        if len(self._resting) > MOST_RESTING:
            code = self._resting.first()
            if self._forget(code):
                counts = self._resting.pop(code)
                self._forgotten = [before + more for before, more in zip(self._forgotten, counts, strict=True)]

    def remove(self, code: int) -> Mailbox | None:
        self._idle.pop(code, None)
        if code in self._resting:
            self._resting.pop(code)
        return self._active.pop(code, None)
