"""Starts a Ray cluster of one node, by and for this process: small, quiet, and reachable by this user of this machine only."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from actors.cluster.ray_internals import forget_token, loopback_only, without_unused_processes
from actors.cluster.session_folder import new_session_folder, remove_session_folder
from actors.cluster.token_file import keep_token_private
from ray_pubsub.errors import ClusterError

MEGABYTE = 1 << 20
# The store holds what is in flight at once: batches and their matches are a few MB each, and admission control bounds their number. Ray's
# default, 30 % of the machine's memory, is meant for data sets.
OBJECT_STORE = 512 * MEGABYTE
# If /dev/shm has less than this free (Docker gives 64 MB; Ray refuses stores below 75), the store is made larger than /dev/shm on purpose:
# Ray then keeps it in files under its temporary folder. That is slower, but filling /dev/shm would end in a SIGBUS and not in an error.
LEAST_IN_SHARED_MEMORY = 128 * MEGABYTE
OBJECT_STORE_IN_FILES = 256 * MEGABYTE


def start_local_cluster(ray: Any, *, namespace: str, cpus: int, dashboard: bool) -> None:
    """Starts the cluster and connects this process to it. It ends with `ray.shutdown()` and with this process. Raises ClusterError."""
    try:
        if keep_token_private(Path.home(), os.environ):
            forget_token()
        with loopback_only(True), without_unused_processes(dashboard=dashboard):
            ray.init(
                address="local",
                namespace=namespace,
                # Ray starts a Python worker for each in advance; all cores of a large machine would waste hundreds of MB.
                num_cpus=cpus,
                object_store_memory=object_store_memory(free_shared_memory()),
                include_dashboard=dashboard,
                _temp_dir=str(new_session_folder(ray.shutdown)),
                # Workers' output stays in Ray's session folder and out of the user's terminal.
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except Exception as error:  # Ray has no exception class for this
        ray.shutdown()
        remove_session_folder()
        reason = f"could not be started: {error} Is the machine overloaded? Try again, or give the address of a running cluster"
        raise ClusterError("local", reason) from error


def object_store_memory(shared_memory: int | None) -> int:
    """Returns the size of the object store in bytes, given the bytes that are free in /dev/shm (None if there is no /dev/shm, as on macOS).

    >>> object_store_memory(64 * MEGABYTE) // MEGABYTE, object_store_memory(1000 * MEGABYTE) // MEGABYTE
    (256, 512)
    """
    if shared_memory is None:
        return OBJECT_STORE_IN_FILES
    # A fifth is left free, because other programs use /dev/shm too.
    fitting = min(OBJECT_STORE, shared_memory * 4 // 5)
    return fitting if fitting >= LEAST_IN_SHARED_MEMORY else OBJECT_STORE_IN_FILES


def free_shared_memory() -> int | None:
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
