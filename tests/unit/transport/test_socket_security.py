"""Nobody else is let in: who may open a socket, whose socket is trusted, and what a peer must know before anything it sends is read."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE

import pytest

from actors.transport.sockets.connection import Connection, SocketAddress
from actors.transport.sockets.handshake import (
    HELLO,
    NONCE,
    PROOF,
    AuthenticationError,
    prove_as_client,
    prove_as_server,
)
from actors.transport.sockets.socket_folder import PREFIX, check_peer, check_socket, private_folder
from actors.transport.sockets.unix_server import UnixServer
from tests.unit.transport.socket_ends import TIMEOUT, Finding, answer, ask, frame, pooled, serving

SOMEBODY_ELSE = os.geteuid() + 1
OTHER_USER = 54321


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="rps-", dir="/tmp"))
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


@contextmanager
def listening(folder: Path, mode: int = 0o700, socket_mode: int = 0o600) -> Iterator[tuple[Path, socket.socket]]:
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)
    with socket.socket(socket.AF_UNIX) as listener:
        path = folder / "socket"
        listener.bind(str(path))
        path.chmod(socket_mode)
        listener.listen()
        yield path, listener


# Where sockets lie


def test_a_socket_is_this_users_alone_and_is_removed_with_its_server() -> None:
    with serving() as server:
        path = Path(server.address.path)
        assert S_IMODE(path.stat().st_mode) == 0o600
        assert S_IMODE(path.parent.stat().st_mode) == 0o700
        assert [each.name for each in path.parent.iterdir()] == ["socket"]
    assert not path.parent.exists()
    server.close()


def test_the_users_own_runtime_folder_is_preferred_if_it_is_private(
    monkeypatch: pytest.MonkeyPatch, short: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    found = private_folder()
    assert found.parent == short
    short.chmod(0o750)
    other = private_folder()
    assert other.parent == Path(tempfile.gettempdir()).resolve()
    for each in (found, other):
        each.rmdir()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707])
def test_no_socket_is_made_where_others_can_rename_it(monkeypatch: pytest.MonkeyPatch, short: Path, mode: int) -> None:
    short.chmod(mode)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    found = private_folder()
    assert found.parent == Path("/tmp").resolve()
    found.rmdir()
    (short / "deep").mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(short / "deep"))  # private, in a folder that is not
    found = private_folder()
    assert found.parent == Path("/tmp").resolve()
    found.rmdir()
    short.chmod(mode | 0o1000)
    found = private_folder()
    assert found.parent == short / "deep"


def test_a_folder_whose_path_is_too_long_for_a_socket_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with serving() as server, pooled(Finding(server.address)) as pool:
        assert not list(deep.iterdir())
        assert ask(pool, 1) is None
        assert answer(pool, 1) == [1]


def test_folders_that_killed_processes_left_behind_are_removed(monkeypatch: pytest.MonkeyPatch, short: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    with listening(short / f"{PREFIX}dead"):
        pass  # its process ends without removing anything
    (short / f"{PREFIX}new").mkdir()  # of a process that has not made its socket yet
    with listening(short / "other"):
        pass
    with serving() as first, serving() as second:
        left = {each.name for each in short.iterdir()}
        living = {Path(server.address.path).parent.name for server in (first, second)}
        assert left == {"other", f"{PREFIX}new", *living}


# Whose socket is trusted


def test_a_socket_of_this_user_in_a_private_folder_is_trusted(short: Path) -> None:
    with listening(short / "own") as (path, _):
        check_socket(path)


@pytest.mark.parametrize(("mode", "socket_mode"), [(0o755, 0o600), (0o770, 0o600), (0o700, 0o666), (0o700, 0o604)])
def test_a_socket_that_others_may_open_is_not_trusted(short: Path, mode: int, socket_mode: int) -> None:
    with listening(short / "open", mode, socket_mode) as (path, _), pytest.raises(PermissionError):
        check_socket(path)


def test_a_socket_that_belongs_to_somebody_else_is_not_trusted(short: Path) -> None:
    with listening(short / "theirs") as (path, _), pytest.raises(PermissionError, match="not this user's"):
        check_socket(path, SOMEBODY_ELSE)


def test_a_folder_that_was_renamed_and_replaced_is_not_trusted(short: Path) -> None:
    """In a folder that is writable for all and not sticky, anybody can put a socket of his own where ours was."""
    with listening(short / "own") as (path, _):
        short.chmod(0o777)
        with pytest.raises(PermissionError, match="can be replaced"):
            check_socket(path)
        short.chmod(0o1777)
        check_socket(path)
        (short / "own").rename(short / "moved")
        (short / "own").symlink_to(short / "moved")
        with pytest.raises(PermissionError):
            check_socket(path)
        (short / "moved" / "socket").unlink()
        (short / "moved" / "socket").touch(0o600)
        with pytest.raises(PermissionError):
            check_socket(short / "moved" / "socket")


def test_a_pool_does_not_connect_to_a_socket_that_is_not_trusted(short: Path) -> None:
    arrived = threading.Event()

    def accept() -> None:
        with suppress(OSError):
            listener.accept()
            arrived.set()

    with listening(short / "open", 0o755) as (path, listener):
        waiting = threading.Thread(target=accept, daemon=True)
        waiting.start()
        address = SocketAddress("here", str(path), "shard-0", b"k" * 32)
        with pooled(Finding(address)) as pool:
            assert [ask(pool, 1) for _ in range(3)] == [None] * 3
        listener.shutdown(socket.SHUT_RDWR)
        waiting.join(TIMEOUT)
        assert not arrived.is_set()


# Which process is at the other end


def test_a_process_of_another_user_is_refused_at_both_ends() -> None:
    here, there = socket.socketpair()
    check_peer(here)
    with pytest.raises(PermissionError, match=f"the user {os.geteuid()}"):
        check_peer(there, SOMEBODY_ELSE)
    here.close()
    there.close()
    with serving(user=SOMEBODY_ELSE) as server, pytest.raises((EOFError, OSError)):
        Connection.to(server.address, TIMEOUT)


def as_other_user(work: Callable[[], None]) -> int:
    """Runs it in a process of another user; what it exits with. Only root can do so."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_another_user_who_knows_path_and_key_gets_nowhere(short: Path) -> None:
    """The rest of this file shows the same with the parts; as root it can be shown with a real second user."""
    if os.geteuid() != 0:
        return

    def cannot_connect() -> None:
        with suppress(OSError, EOFError):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(server.address.path)
            raise AssertionError("let in")

    def cannot_talk() -> None:
        """Even if the socket were open to all."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.address.path)
            connection = Connection(client, TIMEOUT)
            with pytest.raises((OSError, EOFError)):
                prove_as_client(connection._give, connection._exactly, server.address.key, "shard-0")

    with serving() as server:
        assert as_other_user(cannot_connect) == 0
        path = Path(server.address.path)
        path.parent.chmod(0o755)
        path.chmod(0o666)
        assert as_other_user(cannot_talk) == 0
    short.chmod(0o1777)
    mine = short / "theirs"

    def bind() -> None:
        with listening(mine):
            pass

    assert as_other_user(bind) == 0
    with pytest.raises(PermissionError):
        Connection.to(SocketAddress("here", str(mine / "socket"), "shard-0", b"k" * 32), TIMEOUT)


# What a peer must know


def talk(own: socket.socket) -> tuple[Callable[[bytes], None], Callable[[int], bytes]]:
    connection = Connection(own, TIMEOUT)
    return connection._give, connection._exactly


def shake(
    client_key: bytes, server_key: bytes, client_role: str = "shard-0", server_role: str = "shard-0"
) -> list[BaseException | None]:
    """What each side raises."""
    here, there = socket.socketpair()

    def side(prove: Callable[..., None], own: socket.socket, key: bytes, role: str) -> BaseException | None:
        try:
            prove(*talk(own), key, role)
            return None
        except (OSError, EOFError) as error:
            return error
        finally:
            own.close()

    with ThreadPoolExecutor(2) as threads:
        sides = [
            threads.submit(side, prove_as_client, here, client_key, client_role),
            threads.submit(side, prove_as_server, there, server_key, server_role),
        ]
        return [each.result(TIMEOUT) for each in sides]


def test_both_ends_know_the_key() -> None:
    key = secrets.token_bytes(32)
    assert shake(key, key) == [None, None]
    for client, server in ((key, b"another"), (b"another", key)):
        found = shake(client, server)
        assert isinstance(found[0], AuthenticationError) and found[1] is not None


def test_a_peer_of_another_role_is_refused() -> None:
    key = secrets.token_bytes(32)
    found = shake(key, key, "shard-0", "shard-1")
    assert isinstance(found[0], AuthenticationError) and found[1] is not None
    with serving(role="coordinator-0") as server, pooled(Finding(server.address)) as pool:
        assert [ask(pool, 1) for _ in range(2)] == [None, None]  # a pool of shards
    with serving(role="shard-1") as server, pooled(Finding(server.address)) as pool:
        assert [ask(pool, 1) for _ in range(2)] == [None, None]  # asked for shard 0


def test_a_stranger_learns_nothing_and_nothing_of_his_is_read() -> None:
    with serving() as server:
        with pytest.raises(AuthenticationError):
            Connection.to(server.address._replace(key=b"another"), TIMEOUT)
        stranger = socket.socket(socket.AF_UNIX)
        stranger.settimeout(TIMEOUT)
        stranger.connect(server.address.path)
        stranger.sendall(HELLO + b"n" * NONCE + b"p" * PROOF + frame(1).header)
        received = b""
        with suppress(ConnectionError):
            while more := stranger.recv(4096):
                received += more
        assert len(received) in (0, NONCE + PROOF)  # a nonce and a proof, no reply
        stranger.close()


def test_a_server_that_does_not_know_the_key_is_not_believed() -> None:
    with serving() as server, serving() as other, pytest.raises(AuthenticationError):
        Connection.to(other.address._replace(key=server.address.key), TIMEOUT)


def test_a_server_cannot_pass_one_clients_proof_to_another(short: Path) -> None:
    """A process in the middle that does not know the key: whatever two clients send it, it sends to the other one."""
    key = secrets.token_bytes(32)
    with listening(short / "middle") as (path, listener):
        address = SocketAddress("here", str(path), "shard-0", key)

        def in_the_middle() -> None:
            one, two = listener.accept()[0], listener.accept()[0]
            first, second = one.recv(4096), two.recv(4096)
            for target, said in ((one, second), (two, first)):
                nonce = said[len(HELLO) :]
                with suppress(OSError):
                    target.sendall(nonce + said[:PROOF])
                    target.sendall(nonce + target.recv(PROOF))
            for each in (one, two):
                each.close()

        with ThreadPoolExecutor(3) as threads:
            middle = threads.submit(in_the_middle)
            clients = [threads.submit(Connection.to, address, TIMEOUT) for _ in range(2)]
            for client in clients:
                with pytest.raises((AuthenticationError, EOFError, OSError)):
                    client.result(TIMEOUT)
            middle.result(TIMEOUT)


@pytest.mark.parametrize("first", ["own nonce", "server's nonce"])
def test_a_server_does_not_accept_its_own_proof_back(first: str) -> None:
    with serving() as server:
        one, two = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        for each in (one, two):
            each.settimeout(TIMEOUT)
            each.connect(server.address.path)
        one.sendall(HELLO + b"n" * NONCE)
        said = one.recv(NONCE + PROOF)
        proof = said[NONCE:]
        if first == "server's nonce":  # the proof of a second connection, in which the roles are exchanged
            two.sendall(HELLO + said[:NONCE])
            proof = two.recv(NONCE + PROOF)[NONCE:]
        one.sendall(proof)
        request = frame(1)
        with suppress(OSError):
            one.sendall(b"\x02\x00\x00" + len(request.header).to_bytes(4, "big") + request.header)
        with suppress(ConnectionError):
            assert one.recv(4096) == b""
        for each in (one, two):
            each.close()


def test_a_system_that_does_not_name_the_peer_has_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with pytest.raises(OSError, match="at the other end"):
        UnixServer(lambda request: request, "here", "shard-0")
