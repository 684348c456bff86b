"""Finds out who listens at an address of this machine, because a process that connects there may send this user's token.

A port is free again when the head of its cluster has ended, and any user of the machine can listen there next. Who gets the token can run
code as this user on every cluster that it opens. Linux names the user of each listening socket.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

__all__ = ["strangers_at"]

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENING = "0A"
ROOT = 0

Address = IPv4Address | IPv6Address


def strangers_at(address: str) -> frozenset[int]:
    """Returns the users that listen at this host:port of this machine, without this user and root. It is empty for an address of another
    machine, if nobody listens there, and on systems other than Linux, which do not say."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return frozenset()
    there = {each for each in _resolved(host.strip("[]")) if _is_of_this_machine(each)}
    if not there:
        return frozenset()
    users = {user for own, own_port, user in _listening() if own_port == int(port) and _reaches(own, there)}
    return frozenset(users - {ROOT, os.geteuid()})


def _resolved(host: str) -> Iterator[Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return
    for *_, place in found:
        yield _plain(ip_address(str(place[0]).partition("%")[0]))


def _is_of_this_machine(address: Address) -> bool:
    """Only an address of this machine can be bound to."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _reaches(listening: Address, wanted: set[Address]) -> bool:
    """Returns whether a socket that listens at one address gets connections to one of the others. An unspecified IPv6 address may stand
    for both families."""
    return listening in wanted or listening.is_unspecified


def _listening() -> Iterator[tuple[Address, int, int]]:
    """Yields address, port and user of each listening socket. A table has the bytes of an address in words of the machine's order."""
    for table in TABLES:
        lines: list[str] = []
        with suppress(OSError):
            lines = table.read_text().splitlines()[1:]
        for line in lines:
            fields = line.split()
            if fields[3] == LISTENING:
                place, _, port = fields[1].partition(":")
                words = bytes.fromhex(place)
                packed = b"".join(words[start : start + 4][::-1] for start in range(0, len(words), 4))
                yield _plain(ip_address(packed)), int(port, 16), int(fields[7])


def _plain(address: Address) -> Address:
    """An IPv4 address that is written as an IPv6 address is the IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
