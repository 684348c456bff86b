"""Checks whether this process may join a Ray cluster, so that every reason against it is reported at once and precisely."""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from actors.cluster import ray_internals
from ray_pubsub.errors import ClusterError

T = TypeVar("T")

# HTTP/2's client preface and an empty SETTINGS frame. Every gRPC server answers with a SETTINGS frame (type 4, RFC 9113 §3.4).
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
FRAME_HEADER = 9
SETTINGS_FRAME = 4

SILENT = "it did not answer within {wait:g} s; is it a Ray head's address, and is the head alive?"
NOT_RAY = (
    "something listens there, but it is no Ray head (the head's port is 6379 unless `ray start --port` names another)"
)


def probe(address: str, wait: float) -> None:
    """Returns if `ray.init` at this host:port (`as_ray_dials`) will succeed, as far as that can be known. Raises `ClusterError`
    otherwise."""
    _greet(address, wait)
    if ray_internals.token_mode() and not ray_internals.has_token():
        raise ClusterError(
            address, f"{ray_internals.TOKEN_MODE_VARIABLE}=token is set, but there is no token; {HOW_TO_TOKEN}"
        )
    try:
        metadata = _within(wait, lambda: ray_internals.metadata_of(address, wait))
    except TimeoutError:
        raise ClusterError(address, SILENT.format(wait=wait)) from None
    except PermissionError as error:
        raise ClusterError(address, _refused()) from error
    except Exception as error:
        detail = str(error).removeprefix("RPC error:").strip()
        raise ClusterError(address, f"{NOT_RAY}: {detail}" if detail else NOT_RAY) from error
    mismatch = version_mismatch(metadata)
    if mismatch:
        raise ClusterError(address, mismatch)


HOW_TO_TOKEN = (
    "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to the cluster's token (or RAY_AUTH_TOKEN_PATH to a file with it, or put it into "
    "~/.ray/auth_token) before this process starts; `ray get-auth-token` on the head prints it"
)


def _refused() -> str:
    if not ray_internals.token_mode():
        having = (
            " (one is here, but RAY_AUTH_MODE=token is not set, so it was not sent)"
            if ray_internals.has_token()
            else ""
        )
        return f"the cluster wants a token and got none{having}; {HOW_TO_TOKEN}"
    return f"the cluster does not accept the token of this process; {HOW_TO_TOKEN}"


def version_mismatch(metadata: dict[str, Any]) -> str | None:
    """Returns why a process with these versions cannot be part of a cluster with those, or None if it can.

    >>> version_mismatch({"ray_version": "1.0", "python_version": platform.python_version()})[:35]
    'the cluster runs Ray 1.0 with Pytho'
    """
    ray = ray_internals.import_ray()
    theirs = metadata.get("ray_version"), metadata.get("python_version")
    if None in theirs:
        return None  # the cluster does not report them: ray.init will check
    ours = str(ray.__version__), platform.python_version()
    # This is Ray's own rule: equal releases, and equal Python versions to the patch unless this variable says "minor".
    level = os.environ.get("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "patch")
    digits = 2 if level == "minor" else 3
    if theirs[0] == ours[0] and str(theirs[1]).split(".")[:digits] == ours[1].split(".")[:digits]:
        return None
    return (
        f"the cluster runs Ray {theirs[0]} with Python {theirs[1]}, this process Ray {ours[0]} with Python {ours[1]}; "
        "install the cluster's versions here (a Python that differs in the last digit only is allowed by "
        "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor)"
    )


def answers(address: str, wait: float) -> bool:
    """Returns whether something that may be a Ray head listens at this address."""
    try:
        _greet(address, wait)
    except ClusterError:
        return False
    return True


def _greet(address: str, wait: float) -> None:
    """Checks that a gRPC server listens there, within milliseconds; Ray's own client would wait for 40 s. Raises ClusterError."""
    host, port = _split(address)
    try:
        # This runs in a thread because a socket's timeout does not bound the lookup of a name.
        frame = _within(wait, lambda: _first_frame(host, port, wait))
    except TimeoutError:
        raise ClusterError(address, SILENT.format(wait=wait)) from None
    except ConnectionRefusedError as error:
        raise ClusterError(
            address, "nothing listens there; start Ray (`ray start --head`) or correct the address"
        ) from error
    except OSError as error:  # there is no such host, or no route to it
        raise ClusterError(address, f"it cannot be reached: {error.strerror or error}") from error
    if len(frame) < FRAME_HEADER or frame[3] != SETTINGS_FRAME:
        raise ClusterError(address, NOT_RAY)


def _first_frame(host: str, port: int, wait: float) -> bytes:
    with socket.create_connection((host, port), timeout=wait) as connection:
        connection.sendall(GREETING)
        answer = b""
        while len(answer) < FRAME_HEADER:
            more = connection.recv(FRAME_HEADER - len(answer))
            if not more:
                break
            answer += more
        return answer


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ClusterError(address, "an address is host:port, such as 10.0.0.5:6379")
    return host.strip("[]"), int(port)


def _within(seconds: float, function: Callable[[], T]) -> T:
    """Returns or raises what the function does; raises TimeoutError if it takes longer. Its thread is then left to end by itself."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="cluster-probe", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]
