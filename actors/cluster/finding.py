"""Decides which cluster `start` and `connect` mean when no address is given."""

from __future__ import annotations

import os

from actors.cluster import ray_internals
from actors.cluster.joining import ADDRESS_VARIABLE
from actors.cluster.port_owner import strangers_at
from actors.cluster.probe import answers
from actors.cluster.server_notes import ServerNote, read_notes, remove_note
from ray_pubsub.errors import ClusterError, SettingError

__all__ = ["address_to_start_at", "living_notes", "server_to_connect_to"]

DEFAULT_NAME = "default"
WAIT = 2.0


def address_to_start_at(name: str, address: str | None, data_dir: str | None) -> str | None:
    """Returns the address that `join` is given: the one that the user has named; otherwise that of the cluster on which a server of this
    name has this data folder open already; otherwise "local", a new cluster."""
    if address is not None or _is_decided():
        return address
    running = living_notes(name, data_dir) if data_dir is not None else []
    return running[0].address if running else "local"


def server_to_connect_to(name: str | None, address: str | None, data_dir: str | None) -> tuple[str, str | None]:
    """Returns the name of the server that is meant, and the address that `join` is given. Raises ClusterError if that is not clear."""
    if data_dir is not None:
        if address is not None:
            raise SettingError("data_dir", "says where the server is, and so does address; give one of them")
        running = living_notes(name, data_dir)
        if not running:
            reason = f"no server of this user runs on this machine with its data in {data_dir}"
            raise ClusterError(None, f"{reason}; {_others(living_notes())}")
        return running[0].name, running[0].address
    name = DEFAULT_NAME if name is None else name
    if address is not None or _is_decided():
        return name, address
    running = living_notes(name)
    if len(running) > 1:
        raise ClusterError(
            None,
            f"several servers {name!r} run on this machine: {', '.join(map(str, running))}; "
            "choose one by address= (--address) or data_dir= (--data-dir)",
        )
    return name, running[0].address if running else None


def living_notes(name: str | None = None, data_dir: str | None = None) -> list[ServerNote]:
    """Returns the notes of the servers that answer. Notes of servers that do not answer are removed. Where another user listens, the
    server has ended and its port was taken."""
    found = []
    for note in read_notes(name, data_dir):
        if strangers_at(note.address):
            continue
        if answers(note.address, WAIT):
            found.append(note)
        else:
            remove_note(note.name, note.address)
    return found


def _is_decided() -> bool:
    """Returns whether this process is in a cluster already, or the environment names one."""
    return bool(os.environ.get(ADDRESS_VARIABLE)) or bool(ray_internals.import_ray().is_initialized())


def _others(notes: list[ServerNote]) -> str:
    return f"there are {', '.join(map(str, notes))}" if notes else "start() or `ray-pubsub start` starts one"
