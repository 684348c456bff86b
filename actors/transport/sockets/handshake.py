"""The handshake by which both ends of a connection prove that they know the server's key, before anything else is read.

    client → server   hello, client's nonce
    server → client   server's nonce, proof("server")
    client → server   proof("client")

A proof is an HMAC over the side that gives it, the role of the actor (which shard, which coordinator) and both nonces. So no proof can be
reflected to its sender, or be used in another connection or for another actor.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

__all__ = ["AuthenticationError", "prove_as_client", "prove_as_server"]

HELLO = b"ray-pubsub/2"
NONCE, PROOF = 32, 32
Send = Callable[[bytes], None]
Receive = Callable[[int], bytes]
"""Receives exactly this number of bytes."""


class AuthenticationError(ConnectionError):
    """The process at the other end does not know the key, or expects another actor here."""


def prove_as_client(send: Send, receive: Receive, key: bytes, role: str) -> None:
    """Does the client's part of the handshake. Raises AuthenticationError."""
    client = secrets.token_bytes(NONCE)
    send(HELLO + client)
    reply = receive(NONCE + PROOF)
    server = reply[:NONCE]
    _check(reply[NONCE:], _proof(key, b"server", role, client, server))
    send(_proof(key, b"client", role, client, server))


def prove_as_server(send: Send, receive: Receive, key: bytes, role: str) -> None:
    """Does the server's part of the handshake. Raises AuthenticationError."""
    hello = receive(len(HELLO) + NONCE)
    if not hello.startswith(HELLO):
        raise AuthenticationError("the other end speaks another protocol")
    client, server = hello[len(HELLO) :], secrets.token_bytes(NONCE)
    send(server + _proof(key, b"server", role, client, server))
    _check(receive(PROOF), _proof(key, b"client", role, client, server))


def _proof(key: bytes, side: bytes, role: str, client: bytes, server: bytes) -> bytes:
    return hmac.digest(key, b"\0".join((HELLO, side, role.encode(), client + server)), "sha256")


def _check(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise AuthenticationError("the other end does not know the key of this socket")
