"""The address of a server's PostgreSQL database: a URL whose password is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from ray_pubsub.errors import SettingError

__all__ = ["PostgresAddress"]

SCHEMES = ("postgresql", "postgres")
SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
SECRET = ("password", "sslpassword", "passfile")
REMEDY = "must look like postgresql://user@host:5432/database"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database URL. Its printed and logged form has no password. It is pickled with the password, if the URL has one, because
    processes of the server must connect again after a restart. If the URL has none, libpq takes it from PGPASSWORD or ~/.pgpass of
    each node."""

    url: str = field(repr=False)
    """The URL for the driver, with the password."""
    schema: str
    """The prefix of the names of the two schemas, that of the registry and that of the mailboxes."""
    shown: str
    """The URL without secrets."""

    def __str__(self) -> str:
        return self.shown

    @classmethod
    def of(cls, url: object) -> PostgresAddress:
        """Parses a URL. Raises SettingError, whose text has no password either.

        >>> PostgresAddress.of("postgresql://ray@db/pubsub?schema=orders")
        PostgresAddress(schema='orders', shown='postgresql://ray@db/pubsub?schema=orders')
        """
        if not isinstance(url, str):
            raise SettingError("store", f"{REMEDY}, not {type(url).__name__}")
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 - raises ValueError if it is none
            options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise SettingError("store", f"{REMEDY}; this one cannot be read") from None
        if parts.scheme not in SCHEMES:
            raise SettingError("store", f"{REMEDY}; there is no store of the kind {parts.scheme!r}")
        schema = dict(options).get("schema", "ray_pubsub")
        if not SCHEMA.fullmatch(schema):
            raise SettingError("store", "its schema must be 1 to 40 lower-case letters, digits or underscores")
        for_driver = [(name, value) for name, value in options if name != "schema"]
        to_show = [(name, value) for name, value in options if name not in SECRET]
        host = parts.netloc.rpartition("@")[2]
        user = parts.netloc.rpartition("@")[0].partition(":")[0]
        netloc = f"{user}@{host}" if user else host
        return cls(
            urlunsplit(parts._replace(query=urlencode(for_driver, quote_via=quote), fragment="")),
            schema,
            urlunsplit(parts._replace(netloc=netloc, query=urlencode(to_show, safe="/"), fragment="")),
        )
