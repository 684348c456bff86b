"""Translates PostgreSQL's errors to the library's own: those that are temporary (the database is away), and those that somebody has to
mend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from actors.storage.database import DamagedContentError
from ray_pubsub.errors import RayPubSubError, StoreError, UnavailableError

__all__ = ["database_errors"]

BACK = "what was not acknowledged may or may not have been done; the server goes on by itself when the database is back"
PASSING = {
    "53300": "has no connection left",
    "53400": "has reached a limit of its configuration",
    "25006": "can only be read: it is a standby, or about to become the primary",
    "55P03": "another process has been writing to this store for too long",
    "57014": "cancelled a statement",
    "57P01": "is shutting down",
    "57P02": "has crashed, and recovers",
    "57P03": "is starting or shutting down",
    "57P05": "ended an idle session",
}
"""The temporary errors by SQLSTATE. All of class 08, and a lost connection, which has no SQLSTATE, are temporary too."""
LASTING = {
    "28000": "refuses this user; check the URL, pg_hba.conf, and the password (in the URL, PGPASSWORD or ~/.pgpass of every node)",
    "28P01": "refuses the password; check the URL, PGPASSWORD or ~/.pgpass on every node",
    "3D000": "does not exist; create the database first: CREATE DATABASE …",
    "42501": "does not allow this; the user needs CREATE on the database, and owns the tables of its server",
    "53100": "the database's disk is full; nothing of this change was written",
    "XX001": "is damaged; restore it from its backup",
    "XX002": "has a damaged index; REINDEX it, or restore it from its backup",
}


@contextmanager
def database_errors(name: str) -> Iterator[None]:
    """Raises UnavailableError for temporary errors and StoreError for all others. Neither `name` nor the driver's text has a password."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(name, error) from error
    except DamagedContentError as error:
        raise StoreError(name, f"is damaged at {error}; restore the database from its backup") from error


def _translated(name: str, error: psycopg.Error) -> RayPubSubError:
    code, detail = error.sqlstate, " ".join(str(error).split())
    if code in LASTING:
        return StoreError(name, f"{LASTING[code]} ({detail})")
    if code in PASSING:
        return UnavailableError(f"the database {name}", f"{PASSING[code]} ({detail}); {BACK}")
    if (code is None and isinstance(error, psycopg.OperationalError)) or (code or "").startswith("08"):
        # While the connection is made, a refused password or a missing database has no SQLSTATE.
        for found, reason in (("password authentication failed", LASTING["28P01"]), ("no password", LASTING["28P01"])):
            if found in detail:
                return StoreError(name, f"{reason} ({detail})")
        if 'database "' in detail and "does not exist" in detail:
            return StoreError(name, f"{LASTING['3D000']} ({detail})")
        if 'role "' in detail and "does not exist" in detail:
            return StoreError(name, f"{LASTING['28000']} ({detail})")
        return UnavailableError(f"the database {name}", f"does not answer ({detail}); {BACK}")
    return StoreError(name, f"{detail} (SQLSTATE {code})" if code else detail)
