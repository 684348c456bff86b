"""How texts and ids are written in PostgreSQL's text columns, so that every one of them is read back as it was.

PostgreSQL's text has no place for the character NUL, which an id or a string in an expression may contain, and a column has one type,
while 1 and '1' are different ids. So NUL is written as `\\0`, a backslash as `\\\\`, and the integer 5 as `\\i5`; everything else, which is
nearly everything, as it is.
"""

from __future__ import annotations

from typing import Any

from psycopg.adapt import AdaptersMap, Buffer, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.string import StrDumper

from ray_pubsub.errors import SubscriptionIdError

__all__ = ["IdText", "id_text", "register_texts"]

LONGEST_ID = 2_600
"""In bytes. An entry of an index must fit a third of a page of 8 kB."""


class IdText(str):
    """An id in its stored form."""

    __slots__ = ()


def id_text(identity: str | int) -> IdText:
    """
    >>> id_text("a"), id_text(5), id_text("C:\\\\x")
    ('a', '\\\\i5', 'C:\\\\\\\\x')
    """
    text = IdText(_written(identity) if isinstance(identity, str) else f"\\i{identity}")
    if len(text) > LONGEST_ID // 4 and len(text.encode()) > LONGEST_ID:
        raise SubscriptionIdError(identity, f"PostgreSQL can index ids of at most {LONGEST_ID:,} bytes")
    return text


def _written(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in text or "\0" in text else text


def _read(text: str) -> str | int:
    if text.startswith("\\i"):
        return int(text[2:])
    # Once the double backslashes are split off, no single one is left alone.
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


class _TextDumper(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(_written(obj))


class _IdTextDumper(StrDumper):
    pass


class _TextLoader(Loader):
    format = Format.TEXT

    def load(self, data: Buffer) -> Any:
        text = str(data, "utf-8")
        return _read(text) if "\\" in text else text


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


def register_texts(adapters: AdaptersMap) -> None:
    """Registers the adapters for one connection."""
    dumpers: tuple[tuple[type, type[Dumper]], ...] = ((str, _TextDumper), (IdText, _IdTextDumper))
    for kind, dumper in dumpers:
        adapters.register_dumper(kind, dumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("text", _BinaryTextLoader)
