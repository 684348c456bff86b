"""Compiled kernels are kept by the content of what they are made of, in a folder that nobody else can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_pubsub.kernels import kernel_cache
from ray_pubsub.kernels.kernel_cache import source_hash


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three kernels: `whole` calls `piece`, which calls `atom`."""
    root = tmp_path / "kernels"
    (root / "parts").mkdir(parents=True)
    (root / "whole.py").write_text("from ray_pubsub.kernels.parts.piece import x\n")
    (root / "parts" / "piece.py").write_text("from ray_pubsub.kernels.atom import y\nx = y\n")
    (root / "atom.py").write_text("y = 1\n")
    monkeypatch.setattr(kernel_cache, "ROOT", root)
    return root


def hashes(root: Path) -> dict[str, str]:
    source_hash.cache_clear()
    kernel_cache._imports.cache_clear()
    return {path.stem: source_hash(path) for path in root.rglob("*.py")}


def test_a_change_is_one_of_all_that_contain_it(tree: Path) -> None:
    before = hashes(tree)
    (tree / "parts" / "piece.py").write_text("from ray_pubsub.kernels.atom import y\nx = y + 1\n")
    middle = hashes(tree)
    assert {name for name in before if before[name] != middle[name]} == {"whole", "piece"}
    (tree / "atom.py").write_text("y = 2\n")
    assert not set(middle.values()) & set(hashes(tree).values())


def test_kernels_of_others_are_made_of_their_package_too(tree: Path, tmp_path: Path) -> None:
    """Such as an engine of a user, whose loops call a function of a module beside it."""
    package = tmp_path / "copies" / "engines"
    package.mkdir(parents=True)
    engine, piece = package / "engine.py", package / "piece.py"
    engine.write_text("import numpy\nfrom engines.piece import x\nfrom ray_pubsub.kernels.atom import y\n")
    seen = set()
    for change in (piece, tree / "atom.py", package / "unused.py"):
        for text in ("x = y = 1\n", "x = y = 2\n"):
            change.write_text(text)
            hashes(tree)
            seen.add(source_hash(engine))
    assert len(seen) == 4, "a new one with each file, and with each change of one that it uses"


def test_copies_of_the_sources_are_the_same(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = hashes(tree)
    moved = tree.rename(tmp_path / "elsewhere")
    monkeypatch.setattr(kernel_cache, "ROOT", moved)
    assert hashes(moved) == before


@pytest.mark.parametrize(("mode", "taken"), [(0o700, True), (0o755, True), (0o775, False), (0o777, False)])
def test_a_folder_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, taken: bool
) -> None:
    folder = tmp_path / "ray-pubsub" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    kernel_cache._base_folder.cache_clear()
    found = kernel_cache._base_folder()
    kernel_cache._base_folder.cache_clear()
    assert found == (folder if taken else None)
