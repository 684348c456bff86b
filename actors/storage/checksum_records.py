"""The records of which pages a database has, with their checksums: how they are stored, and what they say of the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from actors.storage.write_ahead_log import FRAME

__all__ = [
    "HEADER", "MAGIC", "RECORD", "Records", "checksums_of", "cut_off_later", "expected_sums", "last_places", "last_size", "sums_of_file",
    "valid_records", "with_checks",
]  # fmt: skip

MAGIC = b"rpsums1\n"
HEADER = 16
RECORD = np.dtype([*FRAME.descr, ("check", "<u8")])
"""A record of a page in the database (`salt` and `frame` are 0) or in the write-ahead log, with a checksum of the record itself."""
FACTORS = {
    "page": 0x9E3779B97F4A7C15, "size": 0xC2B2AE3D27D4EB4F, "salt": 0x165667B19E3779F9, "frame": 0xD6E8FEB86659FD93,
    "header": 0xA0761D6478BD642F, "sum": 0xE7037ED1A0B428DB,
}  # fmt: skip
READ_AT_ONCE = 1 << 22

Records = NDArray[Any]


def checksums_of(path: Path) -> Path:
    """Returns the path of the file with the checksums of a database."""
    return path.with_name(path.name + ".sums")


def valid_records(content: bytes) -> Records:
    """Returns the valid records of a file of checksums. A damaged record is left out; the page that it was for then looks damaged."""
    count = (len(content) - HEADER) // RECORD.itemsize
    records = np.frombuffer(content, RECORD, count, HEADER)
    valid: Records = records[records["check"] == checks(records)]
    return valid


def expected_sums(records: Records, size: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Returns for each page of a database of `size` pages the checksum that was recorded last, and whether the page may be empty too. Page
    numbers are places; the first place has no meaning."""
    last = records[last_places(records["page"])]
    expected, zero_allowed = np.zeros(size + 1, np.uint64), np.ones(size + 1, np.bool_)
    kept = last[(last["page"] <= size) & (last["page"] > 0)]
    expected[kept["page"]] = kept["sum"]
    zero_allowed[kept["page"]] = False
    zero_allowed[kept["page"][cut_off_later(records, kept)]] = True
    return expected, zero_allowed


def sums_of_file(path: Path, page_size: int, pages: int) -> NDArray[np.uint64]:
    """Returns the checksums of the file's pages, at most `pages`. The file must not be open in SQLite in this process, because closing
    it here would end SQLite's locks."""
    sums: list[int] = []
    with path.open("rb") as file:
        while len(sums) < pages and (content := file.read(READ_AT_ONCE)):
            view = memoryview(content)
            whole = min(len(content) // page_size, pages - len(sums))
            sums += [xxh3_64_intdigest(view[place * page_size : (place + 1) * page_size]) for place in range(whole)]
            if whole * page_size < len(content):
                break
    return np.array(sums, np.uint64)


def checks(records: Records) -> NDArray[np.uint64]:
    """Returns a checksum of each record; a change of one of its fields always changes it."""
    mixed = np.full(len(records), 0x27D4EB2F165667C5, np.uint64)
    for field, factor in FACTORS.items():
        mixed ^= records[field].astype(np.uint64) * np.uint64(factor)
    return mixed


def with_checks(records: Records) -> Records:
    """Returns a copy in which each record has its own checksum."""
    complete = np.zeros(len(records), RECORD)
    for field in FACTORS:
        complete[field] = records[field]
    complete["check"] = checks(complete)
    return complete


def last_places(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Returns for each distinct key the position of its last occurrence, by ascending key."""
    _, backwards = np.unique(keys[::-1], return_index=True)
    places: NDArray[np.int64] = len(keys) - 1 - backwards
    return places


def last_size(records: Records) -> int:
    """Returns the database's size in pages after the last commit that these records know of; 0 if they know of none."""
    sizes = records["size"][records["size"] > 0]
    return int(sizes[-1]) if len(sizes) else 0


def cut_off_later(records: Records, last: Records) -> NDArray[np.bool_]:
    """Returns a mask of the pages, given by their last records, that the database was too short for at some later time. Such a page may
    be empty since."""
    shrunk = np.flatnonzero(records["size"])
    if not len(shrunk):
        return np.zeros(len(last), np.bool_)
    lowest = np.minimum.accumulate(records["size"][shrunk][::-1])[::-1]
    places = last_places(records["page"])[np.searchsorted(np.unique(records["page"]), last["page"])]
    after = np.searchsorted(shrunk, places)
    cut = np.zeros(len(last), np.bool_)
    inside = after < len(shrunk)
    cut[inside] = lowest[after[inside]] < last["page"][inside]
    return cut
