"""What Ray keeps to itself and we need: where clusters run, whether a token is at hand, who answers at an address, where sockets are.

`ray.init` finds most of this out too, but waits for 40 s where nothing answers and says little then. Read in Ray 2.60; the only file that
uses Ray's private modules, so that a new release is checked here.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any

from ray_pubsub.errors import ClusterError

TOKEN_MODE_VARIABLE = "RAY_AUTH_MODE"
METADATA_KEY, METADATA_NAMESPACE = b"CLUSTER_METADATA", b"cluster"


def import_ray() -> Any:
    """The module `ray`; imported here and not at the top, so that its absence is an error of ours."""
    try:
        import ray
    except ImportError as error:
        reason = f"Ray cannot be imported in this Python ({error}); install it with: pip install 'ray>=2.56'"
        raise ClusterError(None, reason) from error
    return ray


def as_ray_dials(address: str) -> str:
    """The host:port to which `ray.init(address)` will talk: Ray replaces a loopback host by the machine's own address."""
    dialled: str | None = _part("_private.services").canonicalize_bootstrap_address(address)
    return dialled or address


def recorded_cluster() -> str | None:
    """The address that the last `ray start` on this machine left in Ray's temporary folder; perhaps of a cluster long gone."""
    return _part("_private.utils").read_ray_address() or None


def running_clusters() -> frozenset[str]:
    """The addresses of all clusters that have a process on this machine, from the process list."""
    find = _part("_private.services").find_gcs_addresses
    find.cache_clear()
    return frozenset(find())


def token_mode() -> bool:
    """Whether this process sends a token with its requests."""
    raylet = _part("_raylet")
    return bool(raylet.get_authentication_mode() == raylet.AuthenticationMode.TOKEN)


def has_token() -> bool:
    """Whether there is a token (RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token), to be sent or not."""
    return bool(_part("_raylet").AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))


def send_token_if_undecided() -> None:
    """Turns the token mode on if RAY_AUTH_MODE is not set and a token is there, as `ray.init("auto")` does for clusters of this machine."""
    if TOKEN_MODE_VARIABLE not in os.environ and has_token():
        os.environ[TOKEN_MODE_VARIABLE] = "token"
        _part("_raylet").Config.initialize("")


def metadata_of(address: str, timeout: float) -> dict[str, Any]:
    """What the cluster says about itself: ray_version, python_version. Raises PermissionError if it does not accept our token.

    In token mode there must be a token: without one Ray ends the whole process.
    """
    try:
        told = (
            _part("_raylet")
            .GcsClient(address=address)
            .internal_kv_get(METADATA_KEY, METADATA_NAMESPACE, timeout=timeout)
        )
    except _part("exceptions").AuthenticationError as error:
        raise PermissionError(str(error)) from error
    return dict(json.loads(told)) if told else {}


def sockets_folder() -> str | None:
    """Where Ray's own sockets are on this node, in a process of a cluster; None if that cannot be told."""
    try:
        return str(_part("_private.worker")._global_node.get_sockets_dir_path())
    except AttributeError:
        return None


def server_of_ended_actor(actor_id: str | None) -> str | None:
    """The server of an actor that will not be started again; None if it may be, or is none of ours, or if that cannot be told."""
    if actor_id is None:
        return None
    try:
        told = _part("_private.state").actors(actor_id)
    except Exception:  # whatever keeps it from telling, the call has failed, and that is told
        return None
    server, found, _ = str(told.get("Name", "")).partition("/")
    return server if found and told.get("State") == "DEAD" else None


def _part(module: str) -> Any:
    """A module of Ray by its name: what is private has no types to check against."""
    return import_module(f"ray.{module}")
