"""The machine's constants and their file: kept if they can be, measured if they must be, and never in the way."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.selection import calibration
from ray_pubsub.engines.selection.calibration import (
    CACHE_VARIABLE,
    cache_directory,
    constants_file,
    machine_constants,
    measure,
    read,
    write,
)
from ray_pubsub.engines.selection.machine import TYPICAL, MachineConstants
from ray_pubsub.engines.selection.segment_choice import FEWEST_CHOSEN


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of its own, not there yet."""
    directory = tmp_path / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(directory))
    return directory


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has just started."""
    monkeypatch.setattr(calibration, "_known", {})


def stored() -> Path:
    path = constants_file()
    assert path is not None
    return path


def test_measuring_gives_positive_times() -> None:
    assert all(0 < nanoseconds < 1e9 for nanoseconds in measure().to_dict().values())


def test_a_file_gives_back_what_was_written(cache: Path) -> None:
    assert write(stored(), TYPICAL)
    assert read(stored()) == TYPICAL
    assert [path.name for path in cache.iterdir()] == [stored().name]


def test_a_file_is_used_instead_of_measuring(cache: Path, forgetful: None) -> None:
    marked = replace(TYPICAL, word=123.0)
    write(stored(), marked)
    assert machine_constants() == marked


def test_what_was_measured_is_in_the_file(cache: Path, forgetful: None) -> None:
    assert machine_constants() == read(stored())


def test_it_is_measured_once(cache: Path, forgetful: None) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: machine_constants(), range(8)))
    assert all(constants is found[0] for constants in found)


def content(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"measured_on": calibration.machine_key(), "nanoseconds": TYPICAL.to_dict()}
    return {**whole, **changes}


BAD = {
    "empty": b"",
    "cut short": json.dumps(content()).encode()[:-9],
    "not text": b"\xff\xfe\x00",
    "another shape": b"[1, 2]",
    "deep": b"[" * 100_000,
    "no constants": json.dumps(content(nanoseconds={})).encode(),
    "a constant missing": json.dumps(content(nanoseconds={"word": 1.0})).encode(),
    "a negative constant": json.dumps(content(nanoseconds={**TYPICAL.to_dict(), "word": -1.0})).encode(),
    "zero": json.dumps(content(nanoseconds={**TYPICAL.to_dict(), "word": 0.0})).encode(),
    "not a number": json.dumps(content(nanoseconds={**TYPICAL.to_dict(), "word": float("nan")})).encode(),
    "a string": json.dumps(content(nanoseconds={**TYPICAL.to_dict(), "word": "1"})).encode(),
    "another machine": json.dumps(content(measured_on={"processor": "other"})).encode(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_no_file(cache: Path, name: str) -> None:
    cache.mkdir()
    stored().write_bytes(BAD[name])
    assert read(stored()) is None


def test_a_bad_file_is_replaced(cache: Path, forgetful: None) -> None:
    cache.mkdir()
    stored().write_bytes(BAD["cut short"])
    assert machine_constants() == read(stored())


def test_what_the_bad_files_differ_from_is_good(cache: Path) -> None:
    cache.mkdir()
    stored().write_text(json.dumps(content()))
    assert read(stored()) == TYPICAL


def test_a_directory_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgetful: None) -> None:
    """A file is in the place of a directory: nobody can write there, not even root."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    assert not write(stored(), TYPICAL)
    assert machine_constants() is machine_constants()


def test_a_directory_in_the_place_of_the_file(cache: Path, forgetful: None) -> None:
    stored().mkdir(parents=True)
    (stored() / "something").write_text("")
    assert not write(stored(), TYPICAL)
    assert [path.name for path in cache.iterdir()] == [stored().name]  # nothing half-written is left
    assert machine_constants() is machine_constants()


def test_without_a_home(monkeypatch: pytest.MonkeyPatch, forgetful: None) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert constants_file() is None
    assert machine_constants() is machine_constants()


def test_where_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "ray-pubsub"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == tmp_path / ".cache" / "ray-pubsub"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "ray-pubsub"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"


def test_processes_at_once(cache: Path) -> None:
    """All of them get constants, and one whole file is left."""
    program = (
        "from ray_pubsub.engines.selection.calibration import machine_constants; print(machine_constants().word > 0)"
    )
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in started] == ["True"] * 3
    assert [path.name for path in cache.iterdir()] == [stored().name]
    assert read(stored()) is not None


def test_small_indexes_measure_nothing(cache: Path, forgetful: None) -> None:
    index = MatchIndex()
    count = FEWEST_CHOSEN - 1
    index.add_many(range(count), [f"x >= {number}" for number in range(count)], atomic=True)
    assert len(index.match({"x": 10})) == 11
    assert not cache.exists()
    assert calibration._known == {}


def test_large_indexes_do(cache: Path, forgetful: None) -> None:
    index = MatchIndex()
    index.add_many(range(FEWEST_CHOSEN), [f"x >= {number}" for number in range(FEWEST_CHOSEN)], atomic=True)
    assert len(index.match({"x": 10})) == 11
    assert read(stored()) is not None


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_constants_are_positive(value: float) -> None:
    with pytest.raises(ValueError, match="visit"):
        replace(TYPICAL, visit=value)


def test_constants_as_a_dict() -> None:
    assert MachineConstants.from_dict(TYPICAL.to_dict()) == TYPICAL
