"""Checks the address of a webhook: public addresses are allowed, private ones only if their network is.

A name is looked up once for each request, and the connection is made to the very address that was checked. So a name that has a public
address when it is checked and a private one a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from ray_pubsub.errors import SettingError

__all__ = ["RefusedAddressError", "Target", "is_allowed", "resolved", "target_of"]

Network = str
# IPv6 addresses in these networks stand for an IPv4 address, which may be private.
UNROUTED = [ip_network(each) for each in ("168.63.129.16/32", "fec0::/10")]
"""Python takes these for public: a cloud's own address in every virtual machine, and the site-local addresses of old."""
TRANSLATED = [ip_network(each) for each in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")]


class RefusedAddressError(OSError):
    """The target has no address that webhooks may go to."""


class Target(NamedTuple):
    """The parts of a webhook's URL."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.scheme == "https" else 80
        return host if self.port == usual else f"{host}:{self.port}"


def target_of(url: object) -> Target:
    """Parses the URL of a webhook. Raises SettingError."""
    try:
        if not isinstance(url, str) or not url.isascii() or any(each <= " " or each == "\x7f" for each in url):
            raise ValueError("it must be a text of printable ASCII")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it must begin with https:// or http:// and name a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("names and passwords do not belong into it")
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise SettingError("url", f"{error}, not {url!r}") from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname, port, path)


def is_allowed(address: IPv4Address | IPv6Address, allowed: Iterable[Network]) -> bool:
    """Returns whether webhooks may go to this address.

    >>> is_allowed(ip_address("8.8.8.8"), []), is_allowed(ip_address("10.0.0.1"), []), is_allowed(ip_address("::ffff:10.0.0.1"), [])
    (True, False, False)
    >>> is_allowed(ip_address("10.0.0.1"), ["10.0.0.0/8"]), is_allowed(ip_address("169.254.169.254"), ["10.0.0.0/8"])
    (True, False)
    """
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in ip_network(network) for network in allowed):
        return True
    if isinstance(address, IPv6Address) and any(address in network for network in TRANSLATED):
        return False
    if any(address in network for network in UNROUTED):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


async def resolved(target: Target, allowed: Iterable[Network]) -> tuple[str, int]:
    """Returns the address to connect to: the first address of the name that is allowed. Raises RefusedAddressError, or OSError if the
    name is unknown."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    for *_, address in found:
        if is_allowed(ip_address(str(address[0]).partition("%")[0]), allowed):
            return str(address[0]), int(address[1])
    raise RefusedAddressError(
        f"{target.host} has no public address; private ones are allowed by --allow-network of `ray-pubsub serve` (allow_networks=)"
    )
