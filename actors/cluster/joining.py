"""Connects a process to a Ray cluster: one that it is connected to already, one that runs, or one that it starts."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

from actors.cluster import ray_internals
from actors.cluster.local_cluster import start_local_cluster
from actors.cluster.port_owner import strangers_at
from actors.cluster.probe import answers, probe
from actors.cluster.ray_internals import TOKEN_MODE_VARIABLE
from actors.cluster.session_folder import remove_session_folder
from actors.cluster.token_file import TOKEN_VARIABLES
from ray_pubsub.errors import ClusterError

logger = logging.getLogger(__name__)

NAMESPACE = "ray_pubsub"
ADDRESS_VARIABLE = "RAY_ADDRESS"

NO_CLIENT = (
    "Ray Client (ray://) is not supported: all data would go through one proxy process, at several times the cost of a call. "
    "Run this program on a machine of the cluster and give the head's own address, host:6379 (`ray status` there shows it), "
    'or address="auto"'
)

UNPROTECTED = (
    "other machines can reach it, and it has no token: everybody who can connect to it can run code on it. Start it with "
    "RAY_AUTH_MODE=token and set the same here with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH; RAY_USE_TLS=1 with RAY_TLS_SERVER_CERT, "
    "RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT on all sides encrypts what it sends. RAY_AUTH_MODE=disabled says that its network is "
    'trusted; address="local" starts a cluster that only this machine can reach'
)

STRANGER = (
    "the user {user} listens there, who could run code as this user if this process joined, and would get this user's Ray token. Has the "
    "cluster that was there ended? If you mean that user's cluster, set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to its token, or "
    "RAY_AUTH_MODE=disabled if it has none"
)

FOUND = "connected to the Ray cluster at %s, found running on this machine; address= or RAY_ADDRESS would name another"


@dataclass(frozen=True, slots=True)
class Joined:
    """The membership of this process in a cluster."""

    address: str
    """host:port, for `ray_pubsub.connect(address=…)` in other processes."""
    node_id: str
    """The id of the node that this process is on."""
    namespace: str
    """The namespace in which actors must be named and looked up, explicitly, because a connection made by others has a namespace of its
    own."""
    started: bool
    """Whether the cluster was started for this call. If so, it ends with `leave()`."""
    connected: bool
    """Whether the connection was made by this call. If so, it ends with `leave()`; otherwise it belongs to others and stays."""

    def leave(self) -> None:
        """Undoes what joining did, and only that. May be called again."""
        ray = ray_internals.import_ray()
        if self.connected and ray.is_initialized() and _connected_to(ray) == self.address:
            ray.shutdown()
            if self.started:
                remove_session_folder()


def join(
    address: str | None = None,
    *,
    start: bool,
    namespace: str = NAMESPACE,
    wait: float = 2.0,
    cpus: int = 2,
    dashboard: bool = False,
) -> Joined:
    """Makes this process part of a cluster, or raises `ClusterError` within about `wait` seconds.

    It uses the first that exists: the connection this process has; `address`; RAY_ADDRESS; with `start`, a new cluster of `cpus` (in some
    seconds), which ends with this process; otherwise this user's cluster on this machine. "local" is always a new cluster; "auto" is
    RAY_ADDRESS or this user's cluster on this machine, and with `start` a new one if there is none. Nothing is shipped to the workers: they
    run this Python, so they have everything that is installed for it, whatever folder a program is started in; on other machines,
    ray-pubsub is installed like Ray itself.
    """
    ray = ray_internals.import_ray()
    if ray.is_initialized():
        joined = _already_joined(ray, address, namespace)
        if start:
            check_protected(joined.address)
        return joined
    # A cluster that nobody has named may be anybody's: programs look for a server there, but none is started on it.
    unnamed = "local" if address is None and start else "auto"
    given = address if address not in (None, "auto") else os.environ.get(ADDRESS_VARIABLE) or unnamed
    assert given is not None
    if given == "auto":
        found = _on_this_machine(wait, needed=not start)
    elif given == "local":
        if not start:
            raise ClusterError(
                given, "connecting never starts a cluster; use start(), or give the address of a running one"
            )
        found = None
    else:
        found = _named(given, wait)
    if found is None:
        start_local_cluster(ray, namespace=namespace, cpus=cpus, dashboard=dashboard)
    else:
        if start:
            check_protected(found)
        _connect(ray, found, namespace)
        if address is None and given == "auto":
            logger.warning(FOUND, found)
    return _joined(ray, namespace, started=found is None, connected=True)


def _named(address: str, wait: float) -> str:
    """Returns the address as Ray dials it, after it has answered."""
    _refuse_client(address)
    try:
        dialled = ray_internals.as_ray_dials(address)
    except ValueError as error:
        raise ClusterError(address, "an address is host:port, such as 10.0.0.5:6379") from error
    if is_loopback(address) and (strangers_at(dialled) or not answers(dialled, wait)):
        dialled = address  # Ray would dial this machine's other address; a cluster of `start(address="local")` listens on this one
    _refuse_stranger(dialled)
    # A token is sent without being asked for only to this user's clusters that have a process on this machine; any other address may be
    # anyone's.
    if dialled in ray_internals.running_clusters():
        ray_internals.send_token_if_undecided()
    probe(dialled, wait)
    return dialled


def _on_this_machine(wait: float, *, needed: bool) -> str | None:
    """Returns a cluster of this user on this machine that answers. If there is none, returns None, or raises ClusterError if one is
    needed."""
    running = frozenset(each for each in ray_internals.running_clusters() if not strangers_at(each))
    recorded = ray_internals.recorded_cluster()
    found = choose(None if recorded is None or strangers_at(recorded) else recorded, running)
    if found is None:
        if needed:
            reason = (
                "no Ray cluster of this user runs on this machine; start() or `ray-pubsub start` starts a server on a new one, "
                "address= (--address) or RAY_ADDRESS names another"
            )
            raise ClusterError(None, reason)
        return None
    if found in running:
        ray_internals.send_token_if_undecided()
    try:
        probe(found, wait)
    except ClusterError as error:
        if needed:
            raise
        if found in running:
            raise ClusterError(found, f'{error.reason} (or address="local" for a cluster of your own)') from error
        return None  # `ray start` leaves its record behind when the machine goes down
    return found


def choose(recorded: str | None, running: frozenset[str]) -> str | None:
    """Chooses among this machine's clusters: the one that `ray start` recorded, or the only one. Ray itself takes any.

    >>> choose(None, frozenset({"10.0.0.5:6379"}))
    '10.0.0.5:6379'
    """
    if recorded is not None and (recorded in running or not running):
        return recorded
    if len(running) > 1:
        listed = ", ".join(sorted(running))
        raise ClusterError(
            None, f'several Ray clusters run on this machine: {listed}; give one as address=, or "local" for a new one'
        )
    return next(iter(running), None)


def is_loopback(address: str) -> bool:
    """Returns whether an address is of this machine's loopback interface.

    >>> is_loopback("127.0.0.1:6379"), is_loopback("localhost:6379"), is_loopback("10.0.0.5:6379")
    (True, True, False)
    """
    return address.rpartition(":")[0].strip("[]") in ("127.0.0.1", "localhost", "::1")


def check_protected(address: str) -> None:
    """Raises ClusterError if other machines can reach the cluster and it has no token, unless the user has said that it needs none. A
    server stores subscriptions and events, and its cluster runs code for everybody who reaches it."""
    if not is_loopback(address) and TOKEN_MODE_VARIABLE not in os.environ and not ray_internals.token_mode():
        raise ClusterError(address, UNPROTECTED)


def _connect(ray: Any, address: str, namespace: str) -> None:
    try:
        with ray_internals.loopback_only(is_loopback(address)), ray_internals.outliving_the_head():
            ray.init(address=address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        raise ClusterError(address, f"it answers, but Ray did not let this process in: {error}") from error


def _already_joined(ray: Any, address: str | None, namespace: str) -> Joined:
    if ray.util.client.ray.is_connected():
        raise ClusterError(None, f"this process is connected through Ray Client; ray.shutdown() first. {NO_CLIENT}")
    joined = _joined(ray, namespace, started=False, connected=False)
    if address in (None, "auto"):
        return joined
    assert address is not None
    _refuse_client(address)
    if address == "local" or ray_internals.as_ray_dials(address) != joined.address:
        raise ClusterError(
            address,
            f"this process is connected to the cluster {joined.address} already; leave out the address to use that one, or "
            "ray.shutdown() first",
        )
    return joined


def _refuse_stranger(address: str) -> None:
    """Raises ClusterError if another user of this machine listens at an address, unless the environment says that this is meant."""
    strangers = strangers_at(address)
    meant = os.environ.get(TOKEN_MODE_VARIABLE, "").lower() == "disabled" or any(map(os.environ.get, TOKEN_VARIABLES))
    if strangers and not meant:
        raise ClusterError(address, STRANGER.format(user=min(strangers)))


def _refuse_client(address: str) -> None:
    if address.startswith("ray://"):
        raise ClusterError(address, NO_CLIENT)


def _joined(ray: Any, namespace: str, *, started: bool, connected: bool) -> Joined:
    node_id = str(ray.get_runtime_context().get_node_id())
    return Joined(_connected_to(ray), node_id, namespace, started, connected)


def _connected_to(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)
