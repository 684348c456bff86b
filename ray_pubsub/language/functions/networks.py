"""Addresses and networks as numbers: IPv4 in 32 bits, IPv6 as two halves of 64. Python's ipaddress decides what is valid.

A network is an interval of addresses. An IPv6 network of at least 2**64 addresses is an interval of upper halves; a smaller one has a
single upper half and is an interval of lower halves. Halves are reduced by 2**63, so that they fit signed integers and keep their order.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import NamedTuple

from ray_pubsub.language.words import BadConstant

__all__ = ["Network", "address_half", "address_v4", "in_network", "read_network"]

HALF, DOWN = (1 << 64) - 1, 1 << 63


class Network(NamedTuple):
    """The computed attribute that has the addresses, and the first and the last address; `upper`: the upper half, if these are lower
    halves."""

    function: str
    first: int
    last: int
    upper: int | None = None


@lru_cache(maxsize=65_536)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def address_v4(text: str) -> int | None:
    """Returns the number of an IPv4 address; None for any other text."""
    found = _address(text)
    return int(found) if isinstance(found, ipaddress.IPv4Address) else None


def address_half(text: str, upper: bool) -> int | None:
    """Returns the upper or lower half of an IPv6 address; None for any other text."""
    found = _address(text)
    if not isinstance(found, ipaddress.IPv6Address):
        return None
    number = int(found)
    return (number >> 64 if upper else number & HALF) - DOWN


def in_network(text: str, network: str) -> bool | None:
    """Returns whether an address lies in a network of its own version; None for a text that is not an address."""
    found = _address(text)
    return None if found is None else found in ipaddress.ip_network(network)


@lru_cache(maxsize=65_536)
def read_network(text: str) -> Network:
    """Reads `10.0.0.0/8`, `2001:db8::/32`, or a single address."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise BadConstant(f"'{text}' is not a network: {error}") from None
    first, last = int(network.network_address), int(network.broadcast_address)
    if network.version == 4:
        return Network("ip4", first, last)
    if first >> 64 != last >> 64:
        return Network("ip6_upper", (first >> 64) - DOWN, (last >> 64) - DOWN)
    return Network("ip6_lower", (first & HALF) - DOWN, (last & HALF) - DOWN, (first >> 64) - DOWN)
