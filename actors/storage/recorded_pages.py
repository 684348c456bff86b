"""Compares a copy of a database with the checksums that were recorded when its pages were written. A copy gets checksums of its own, which
without this comparison would certify a page that had rotted on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from xxhash import xxh3_64_intdigest

from actors.storage.checksum_records import (
    Records,
    checksums_of,
    expected_sums,
    sums_of_file,
    valid_records,
)
from actors.storage.write_ahead_log import WriteAheadLog

__all__ = ["RecordedPages"]

CHANGED_IN_A_COPY = ((18, 20), (24, 28), (40, 44), (92, 100))
"""The bytes of the first page that SQLite's backup writes itself: the versions of the format, counters of changes, the schema's number."""

_descriptors: dict[Path, int] = {}
"""Databases that were opened to read their first pages. They are never closed: closing a file here would end SQLite's locks of it in this
process."""


class RecordedPages:
    """The checksums of a database's pages around the moment that a copy shows. They are read before the copy's transaction begins (by
    `__init__`), when it has begun, and when it has ended (by `note`), while another process or thread goes on writing."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._before = _recorded(database)
        self._later: list[Records | None] = []

    def note(self) -> None:
        self._later.append(_recorded(self._database))

    @property
    def known(self) -> bool:
        """Whether there were checksums all the time; otherwise there is nothing to compare with."""
        return self._before is not None and all(each is not None for each in self._later)

    def damaged(self, copy: Path) -> tuple[int, int] | None:
        """Returns the first page of a closed copy that is not among those that were written, and the size of a page; None if there is no
        such page. A page may be the last one recorded before the copy, or any recorded or written since."""
        before, later = self._before, [each for each in self._later if each is not None]
        if before is None or not self.known:
            return None
        page_size = _page_size(copy)
        size = copy.stat().st_size // page_size
        sums, zero = sums_of_file(copy, page_size, size), xxh3_64_intdigest(bytes(page_size))
        good = np.zeros(len(sums), np.bool_)
        written: set[tuple[int, int]] = set()
        for records in (before, *later):
            expected, may_be_zero = expected_sums(records, len(sums))
            good |= (sums == expected[1:]) | ((sums == zero) & may_be_zero[1:])
            written.update(_pages(records[~np.isin(records["check"], before["check"])]))
            written.add((1, int(expected[1])))
        log = WriteAheadLog(self._database)
        frames = log.frames()
        recorded = later[-1]["frame"][later[-1]["salt"] == log.salt]
        written.update(_pages(frames[frames["frame"] > recorded.max(initial=0)]))
        log.close()
        for page in (np.flatnonzero(~good) + 1).tolist():
            if (page, int(sums[page - 1])) not in written and not (
                page == 1 and self._first_page(copy, page_size, written)
            ):
                return page, page_size
        return None

    def _first_page(self, copy: Path, page_size: int, written: set[tuple[int, int]]) -> bool:
        """Returns whether the copy's first page is one that was written, but for the bytes that SQLite has changed."""
        with copy.open("rb") as file:
            found = _comparable(file.read(page_size))
        contents = [os.pread(_descriptor(self._database), page_size, 0)]
        log = WriteAheadLog(self._database)
        contents += log.contents(1)
        log.close()
        return any((1, xxh3_64_intdigest(content)) in written and _comparable(content) == found for content in contents)


def _recorded(database: Path) -> Records | None:
    try:
        return valid_records(checksums_of(database).read_bytes())
    except FileNotFoundError:
        return None


def _page_size(database: Path) -> int:
    with database.open("rb") as file:
        found = int.from_bytes(file.read(18)[16:], "big")
    return 65_536 if found == 1 else found


def _pages(records: Records) -> set[tuple[int, int]]:
    return set(zip(records["page"].tolist(), records["sum"].tolist(), strict=True))


def _comparable(page: bytes) -> bytes:
    changed = bytearray(page)
    for first, end in CHANGED_IN_A_COPY:
        changed[first:end] = bytes(end - first)
    return bytes(changed)


def _descriptor(database: Path) -> int:
    found = _descriptors.get(database)
    if found is None or os.fstat(found).st_ino != database.stat().st_ino:
        found = _descriptors[database] = os.open(database, os.O_RDONLY | os.O_CLOEXEC)
    return found
