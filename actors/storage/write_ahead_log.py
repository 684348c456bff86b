"""Reads SQLite's write-ahead log: which pages it has, with their checksums (https://www.sqlite.org/fileformat2.html#walformat)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest, xxh32_intdigest

__all__ = ["FRAME", "WriteAheadLog"]

LOG_HEADER, FRAME_HEADER = 32, 24
MAGICS: dict[int, Literal["little", "big"]] = {0x377F0682: "little", 0x377F0683: "big"}
FRAME = np.dtype(
    [("page", "<u4"), ("size", "<u4"), ("salt", "<u8"), ("frame", "<u4"), ("header", "<u4"), ("sum", "<u8")]
)
"""One frame of the log. `size` is that of the database after the commit that this frame ends, otherwise 0. `frame` counts from 1.
`header` and `sum` are checksums of the frame's header and of the page."""
FEWEST_FRAMES, FRAMES_AT_ONCE = 16, 1024
"""The frames that are read at first, and later at once. A commit mostly has a few. Behind them a log that was restarted still has the
frames of before, megabytes of them, and to read these took most of the time of a commit beside the disk's."""


class WriteAheadLog:
    """The log of one database. It may be read while SQLite has it open, because SQLite's locks are on other files."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + "-wal")
        self.salt = 0
        """Identifies the log since it was last restarted; 0 if there is none, or its header is not valid."""
        self._file = -1
        self._order: Literal["little", "big"] = "little"
        self._distrusted = 0
        self._valid = b""
        """The last header that was valid."""

    def distrust(self) -> None:
        """Must be called when a commit has failed. Its frames may be in the log although they do not count, and later commits overwrite
        them one after the other. Until the log is restarted, frames are accepted only if SQLite's own checksums show that each
        continues the one before it, which takes a tenth of a millisecond each."""
        header = self._header()
        self._distrusted = int.from_bytes(header[16:24], "big") if header else 0

    def frames(self, salt: int = 0, after: int = 0) -> NDArray[Any]:
        """Returns the frames up to the last commit: those after a frame if the log still has this salt, otherwise all of them."""
        header = self._header()
        self.salt = int.from_bytes(header[16:24], "big") if header else 0
        if header is None:
            return np.empty(0, FRAME)
        page_size = int.from_bytes(header[8:12], "big")
        first = after if salt == self.salt else 0
        parts: list[NDArray[Any]] = []
        at_once = FEWEST_FRAMES
        while True:
            part = self._part(first, page_size, at_once)
            parts.append(part)
            first += len(part)
            if len(part) < at_once:
                break
            at_once = min(4 * at_once, FRAMES_AT_ONCE)
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if self._distrusted and self.salt == self._distrusted:
            found = found[: self._continued(found, header, page_size)]
        commits = np.flatnonzero(found["size"])
        return found[: int(commits[-1]) + 1] if len(commits) else found[:0]

    def contents(self, page: int) -> list[bytes]:
        """Returns what the log has of a page, from commit to commit."""
        header = self._header()
        if header is None:
            return []
        page_size, frames = int.from_bytes(header[8:12], "big"), self.frames()
        places = frames["frame"][frames["page"] == page].tolist()
        return [os.pread(self._file, page_size, self.offset(place, page_size) + FRAME_HEADER) for place in places]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @staticmethod
    def offset(frame: int, page_size: int) -> int:
        """Returns the offset at which a frame begins."""
        return LOG_HEADER + (frame - 1) * (FRAME_HEADER + page_size)

    def _part(self, first: int, page_size: int, at_once: int) -> NDArray[Any]:
        """Returns at most `at_once` frames after `first`, until one does not belong to this log."""
        stride = FRAME_HEADER + page_size
        content = os.pread(self._file, at_once * stride, self.offset(first + 1, page_size))
        count = len(content) // stride
        headers = np.frombuffer(content, np.uint8, count * stride).reshape(count, stride)[:, :FRAME_HEADER]
        fields = np.ascontiguousarray(headers).view(">u4")
        salts = np.ascontiguousarray(headers[:, 8:16]).view(">u8")[:, 0] if count else np.empty(0, np.uint64)
        foreign = np.flatnonzero(salts != self.salt)
        count = int(foreign[0]) if len(foreign) else count
        found = np.empty(count, FRAME)
        found["page"], found["size"], found["salt"] = fields[:count, 0], fields[:count, 1], self.salt
        found["frame"] = np.arange(first + 1, first + count + 1)
        view = memoryview(content)
        starts = range(0, count * stride, stride)
        found["header"] = [xxh32_intdigest(view[start : start + FRAME_HEADER]) for start in starts]
        found["sum"] = [xxh3_64_intdigest(view[start + FRAME_HEADER : start + stride]) for start in starts]
        return found

    def _continued(self, frames: NDArray[Any], header: bytes, page_size: int) -> int:
        """Returns how many of these frames SQLite would accept: a frame's checksum covers its page and all frames before it."""
        if not len(frames):
            return 0
        place = self.offset(int(frames["frame"][0]) - 1, page_size) if frames["frame"][0] > 1 else 0
        sums = os.pread(self._file, FRAME_HEADER, place)[16:] if place else header[24:]
        for count, frame in enumerate(frames["frame"].tolist()):
            content = os.pread(self._file, FRAME_HEADER + page_size, self.offset(frame, page_size))
            sums = _sums(content[:8] + content[FRAME_HEADER:], self._order, sums)
            if sums != content[16:FRAME_HEADER]:
                return count
        return len(frames)

    def _header(self) -> bytes | None:
        if self._file >= 0 and not os.fstat(self._file).st_nlink:
            self.close()  # SQLite has removed it, and may have made another
        if self._file < 0:
            try:
                self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
        header = os.pread(self._file, LOG_HEADER, 0)
        if len(header) < LOG_HEADER:
            return None
        order = MAGICS.get(int.from_bytes(header[:4], "big"))
        if order is None:
            return None
        self._order = order
        if header != self._valid and header[24:] == _sums(header[:24], order, bytes(8)):
            self._valid = header
        return header if header == self._valid else None


def _sums(content: bytes, order: Literal["little", "big"], before: bytes) -> bytes:
    """Returns SQLite's checksum of some bytes that follow those with another checksum (section 4.2 of its file format)."""
    first, second = int.from_bytes(before[:4], "big"), int.from_bytes(before[4:], "big")
    words = np.frombuffer(content, "<u4" if order == "little" else ">u4").tolist()
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFF_FFFF
        second = (second + odd + first) & 0xFFFF_FFFF
    return first.to_bytes(4, "big") + second.to_bytes(4, "big")
