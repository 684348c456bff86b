"""The stores of the registry, so that one suite runs over all of them: in memory, in a SQLite file, in PostgreSQL; and a registry alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.registry.registry import Registry
from actors.registry.store.store import RegistryStore
from tests.stores import open_registry_store
from tests.temporary_postgres import TemporaryPostgres
from tests.unit.registry.test_opening import GIVEN, Alone

OpenStore = Callable[..., RegistryStore]


@pytest.fixture
def registry() -> Iterator[Registry]:
    found = Registry(Alone(), None, GIVEN)
    yield found
    found.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens a store. Those in memory are new each time."""
    if request.param == "memory":
        return RegistryStore
    return _opener(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def same_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens a store that is kept, the same one each time."""
    return _opener(request, tmp_path)


def _opener(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "sqlite":
        return lambda **options: RegistryStore(tmp_path / "registry.db", **options)
    postgres: TemporaryPostgres = request.getfixturevalue("postgres")
    url = postgres.url(postgres.new_schema())
    closing = ExitStack()
    request.addfinalizer(closing.close)
    return lambda **options: closing.enter_context(open_registry_store(url, **options))
