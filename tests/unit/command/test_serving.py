"""What `ray-pubsub serve` refuses before it looks for a server or starts the process that would otherwise end again and again."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from actors.cluster import finding
from actors.cluster.server_notes import ServerNote
from actors.command import lifecycle
from actors.command.entry import app
from actors.http.serving import serve
from actors.http.tokens import read_tokens
from ray_pubsub.errors import SettingError, UnknownServerError

GOOD = '{"desk": {"token": "0123456789abcdef", "scopes": ["publish"]}}'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", 'must be {"name": {"token"'),
        ('{"desk": "token"}', 'must be {"name": {"token"'),
        ('{"desk": {"token": "short", "scopes": ["read"]}}', "16 characters or more"),
        (GOOD.replace("publish", "root"), "not 'root'"),
    ],
)
def test_a_bad_file_of_tokens_is_a_wrong_use(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "tokens.json"
    if content is not None:
        file.write_text(content)
    shown = CliRunner().invoke(app, ["serve", "--tokens", str(file)])
    assert shown.exit_code == 2, shown.output
    assert words in shown.output and not isinstance(shown.exception, SettingError)


def test_a_good_file_of_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text(GOOD)
    assert read_tokens(tmp_path / "tokens.json")["desk"]["scopes"] == ["publish"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--certificate", "c.pem"], "needs a key"),
        (["--key", "k.pem"], "needs a key"),
        (["--allow-host", "pubsub.local"], "is for open=True (--open) alone"),
        (["--allow-network", "10.0.0.0/8", "--allow-network", "ten"], "'ten' does not appear to be"),
    ],
)
def test_other_settings_are_checked_first_too(arguments: list[str], words: str) -> None:
    shown = CliRunner().invoke(app, ["serve", *arguments])
    assert shown.exit_code == 2 and words in shown.output, shown.output


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        serve(port=0, certificate=str(tmp_path / "c.pem"), key=str(tmp_path / "k.pem"))
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("nonsense")
    with pytest.raises(SettingError, match="are not a certificate and its key"):
        serve(port=0, certificate=str(tmp_path / "c.pem"), key=str(tmp_path / "k.pem"))


@pytest.mark.parametrize("more", [[], ["--background"]])
def test_a_name_that_is_none(more: list[str]) -> None:
    shown = CliRunner().invoke(app, ["start", "shop/..", *more])
    assert shown.exit_code == 2 and "letters, digits, dots, dashes or underscores" in shown.output


def test_a_name_that_is_taken_elsewhere_and_a_server_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two servers of one name, in two folders, would otherwise be noticed by the next command only."""
    running = ServerNote("shop", "127.0.0.1:6379", str(tmp_path / "a"), 1, 0.0)
    monkeypatch.setattr(
        finding, "living_notes", lambda name, folder=None: [running] if folder != str(tmp_path / "b") else []
    )
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(poll=lambda: 2))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    shown = CliRunner().invoke(app, ["start", "shop", "--background", "--data-dir", str(tmp_path / "a")])
    assert shown.exit_code == 0 and "it runs already, with the settings that it has" in shown.stdout
    other = CliRunner().invoke(app, ["start", "shop", "--background", "--data-dir", str(tmp_path / "b")])
    assert f"there is another server {running}" in other.stderr and "starting a server" in other.stderr
    assert other.exit_code == 2, "as the command that was started in the background"


def test_stderr_has_nothing_but_the_document(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def found_none(*given: object) -> None:
        logging.getLogger("actors.cluster.joining").warning("connected to the Ray cluster")
        raise UnknownServerError("shop", (), "127.0.0.1:6379")

    monkeypatch.setattr(lifecycle, "connected", found_none)
    for arguments, notices in ((["top", "shop"], 1), (["top", "shop", "--json"], 0), (["top", "shop"], 1)):
        caplog.clear()
        assert CliRunner().invoke(app, arguments).exit_code == 3
        assert len(caplog.records) == notices, arguments


@pytest.mark.parametrize("command", ["serve", "status", "stop", "top"])
def test_a_server_is_named_as_it_was_started(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`start shop`, then `stop shop`; --server shop is the same."""
    for arguments in (["shop"], ["--server", "shop"], ["shop", "--server", "shop"]):
        shown = CliRunner().invoke(app, [command, *arguments, "--address", "127.0.0.1:1"])
        assert shown.exit_code == 3, shown.output
    both = CliRunner().invoke(app, [command, "shop", "--server", "market"])
    assert both.exit_code == 2 and "name one" in both.output
