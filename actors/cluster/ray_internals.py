"""The access to Ray's private modules: where clusters run, whether there is a token, what answers at an address.

`ray.init` finds most of this out too, but waits for 40 s where nothing answers and then says little. It was written for Ray 2.60. This is
the only file that uses Ray's private modules, so that a new release of Ray is checked here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any, TypeVar

from ray_pubsub.errors import MissingExtraError

Actor = TypeVar("Actor")
TOKEN_MODE_VARIABLE = "RAY_AUTH_MODE"
HEAD_VARIABLE, HEAD_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s", "2000000"
"""Seconds, 23 days. In milliseconds the value still fits 32 bits."""
LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's own switch, named after the systems on which it is off by default. 0 makes a node's address 127.0.0.1, and a node listens only
on the interface of its address. `--node-ip-address=127.0.0.1` alone leaves the ports for metrics open on all interfaces."""
RAYLET, ADDRESS_FLAG = "raylet", "--gcs-address="
METADATA_KEY, METADATA_NAMESPACE = b"CLUSTER_METADATA", b"cluster"


def import_ray() -> Any:
    """Returns the module `ray`. It is imported here and not at the top, so that its absence raises an error of ours."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("Ray, on which servers run,", "server", str(error)) from error
    return ray


def untraced(kind: type[Actor]) -> type[Actor]:
    """Has Ray leave the private methods of an actor's class as they are. It puts a function around every method, which takes up the trace
    of a remote call; these are only called by their own object. A decorator, because the class is also prepared in the actor's process."""
    for name, method in getmembers(kind, isfunction):
        if name.startswith("_") and not name.startswith("__"):
            method.__ray_tracing_wrapped__ = True  # type: ignore[attr-defined]
    return kind


def as_ray_dials(address: str) -> str:
    """Returns the host:port that `ray.init(address)` will contact: Ray replaces a loopback host by the machine's own address."""
    dialled: str | None = _part("_private.services").canonicalize_bootstrap_address(address)
    return dialled or address


@contextmanager
def loopback_only(whether: bool) -> Iterator[None]:
    """Makes a cluster that is started or joined in this block reachable from this machine only, if `whether` is true. New processes
    inherit the variable; in this process, which has read it already, Ray's constant is set."""
    if not whether:
        yield
        return
    constants = _part("_private.ray_constants")
    enabled, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        with _variable(LOOPBACK_VARIABLE, "0"):
            yield
    finally:
        constants.ENABLE_RAY_CLUSTER = enabled


@contextmanager
def without_unused_processes(*, dashboard: bool) -> Iterator[None]:
    """Starts a cluster of one node in this block without the processes that nobody uses there: the one that would scale it, the one that
    sends workers' logs to drivers and, unless the dashboard is wanted, the dashboard's. They cost 3 s of CPU and 150 MB. `ray.init` has no
    argument for them: with `include_dashboard=False` the dashboard's process runs all the same, and only counts usage."""
    node = _part("_private.node").Node
    unused = ["start_monitor", "start_log_monitor", *([] if dashboard else ["start_api_server"])]
    methods = {name: getattr(node, name) for name in unused}
    for name in methods:
        setattr(node, name, lambda self, **options: None)
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(node, name, method)


@contextmanager
def outliving_the_head() -> Iterator[None]:
    """Lets this process survive the loss of the cluster that it joins in this block: Ray ends every process that could not reach its
    cluster's head for 60 s. Calls then raise UnavailableError, and leaving the cluster works. Ray reads the variable when it
    connects; processes that this one starts do not get it, because workers should end with their cluster."""
    with _variable(HEAD_VARIABLE, HEAD_PATIENCE):
        yield


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Sets a variable of the environment for the duration of the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def recorded_cluster() -> str | None:
    """Returns the address that the last `ray start` of this user or root on this machine recorded in Ray's temporary folder, perhaps of a
    cluster that is long gone. Anybody can write that folder, so the file's owner is looked at."""
    path = _part("_private.utils").get_ray_address_file(None)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            if os.fstat(file.fileno()).st_uid in (0, os.geteuid()):
                return file.read().strip() or None
    except (OSError, ValueError):
        pass
    return None


def running_clusters() -> frozenset[str]:
    """Returns the addresses of all clusters that have a process of this user on this machine, from the process list. Others can give their
    processes any command line, also those that they run as root (sudo), so the program itself is looked at too."""
    found = set()
    for process in import_module("psutil").process_iter(["uids", "exe", "cmdline"]):  # Ray brings it along
        uids, program, line = (process.info[name] for name in ("uids", "exe", "cmdline"))
        if uids and uids.real == os.geteuid() and Path(program or "").name == RAYLET:
            found |= {each.removeprefix(ADDRESS_FLAG) for each in line or () if each.startswith(ADDRESS_FLAG)}
    return frozenset(found - {""})


def token_mode() -> bool:
    """Returns whether this process sends a token with its requests."""
    raylet = _part("_raylet")
    return bool(raylet.get_authentication_mode() == raylet.AuthenticationMode.TOKEN)


def has_token() -> bool:
    """Returns whether there is a token (RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token), whether or not it is sent."""
    return bool(_part("_raylet").AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))


def forget_token() -> None:
    """Makes Ray look for the token again, after there came to be one."""
    _part("_raylet").AuthenticationTokenLoader.instance().reset_cache()


def send_token_if_undecided() -> None:
    """Turns the token mode on if RAY_AUTH_MODE is not set and there is a token, as `ray.init("auto")` does for clusters of this machine."""
    if TOKEN_MODE_VARIABLE not in os.environ and has_token():
        os.environ[TOKEN_MODE_VARIABLE] = "token"
        _part("_raylet").Config.initialize("")


def metadata_of(address: str, timeout: float) -> dict[str, Any]:
    """Returns what the cluster reports about itself: ray_version, python_version. Raises PermissionError if it does not accept our token.

    In token mode there must be a token: without one Ray ends the whole process.
    """
    try:
        found = (
            _part("_raylet")
            .GcsClient(address=address)
            .internal_kv_get(METADATA_KEY, METADATA_NAMESPACE, timeout=timeout)
        )
    except _part("exceptions").AuthenticationError as error:
        raise PermissionError(str(error)) from error
    return dict(json.loads(found)) if found else {}


def server_of_ended_actor(actor_id: str | None) -> str | None:
    """Returns the server of an actor that will not be restarted; None if it may be, if it is not ours, or if Ray does not say."""
    if actor_id is None:
        return None
    try:
        found = _part("_private.state").actors(actor_id)
    except Exception:  # the failed call is reported in any case
        return None
    server, separator, _ = str(found.get("Name", "")).partition("/")
    return server if separator and found.get("State") == "DEAD" else None


def _part(module: str) -> Any:
    """Returns a module of Ray by its name. Private modules have no types to check against."""
    return import_module(f"ray.{module}")
