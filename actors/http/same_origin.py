"""Keeps web pages of others out of an interface that needs no token.

A browser sends requests to 127.0.0.1 for every page that it shows. A page of another origin is known by the header Origin or, where a
browser sends none (a picture whose address is a stream, which would take a subscriber's deliveries), by Sec-Fetch-Site. One whose host
name its owner has pointed at this machine (DNS rebinding) has the origin of the interface for the browser; it is known by the header Host,
which has that name. Where a token is needed no page has it, and nothing of this is asked.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from actors.http.problems import HttpError

__all__ = ["check_same_origin"]

KNOWN = 64
"""The names of hosts that are kept as they were read: to read one takes a tenth of the time of a publication."""


def check_same_origin(host: str | None, origin: str | None, allowed: Collection[str], site: str | None = None) -> None:
    """Raises HttpError unless Host is an IP address, localhost or one of the `allowed` names, and Origin, if there is one, is the same.
    A name in `allowed` may be used as an origin behind a proxy that changes Host. `site` is the header Sec-Fetch-Site, for paths at which
    no link of another page leads."""
    name = _name(f"//{host}") if host else None
    if name is not None and not (_is_local(name) or name in allowed):
        raise HttpError(403, f"the interface needs no token, so it answers to no host {name!r}; see allow_hosts")
    if origin is None:
        if site in ("cross-site", "same-site"):
            raise HttpError(
                403, "the interface needs no token, so it answers to no page of another site; see allow_hosts"
            )
        return
    came_from = _name(origin)
    if came_from is None or (urlsplit(origin).netloc.lower() != (host or "").lower() and came_from not in allowed):
        raise HttpError(403, f"the interface needs no token, so it answers to no page of {origin!r}; see allow_hosts")


@lru_cache(KNOWN)
def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


@lru_cache(KNOWN)
def _is_local(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
