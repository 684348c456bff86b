"""Which package may import which: in the library the right imports the left only, and the actors' packages have a table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source_tree import check_rule, imports, is_in, module_of, report, shown, sources

# Each imports only itself, what stands before it, and kernels.
LAYERS = [
    "caret",
    "errors",
    "failpoints",
    "preemption",
    "settings",
    "workspace",
    "model",
    "language",
    "columns",
    "engines",
    "index",
    "priority",
    "sharding",
    "warming",
    "importers",
]
# Kernels have arrays for input and output. What else they may import has no behaviour: annotations and NamedTuple.
KERNELS_MAY_IMPORT = {
    *{"__future__", "collections.abc", "typing", "llvmlite", "numba", "numpy"},
    *{"contextlib", "fcntl", "pathlib"},  # compiling_once
    *{"os", "sys", "time", "zlib"},  # readiness
    *{"functools", "hashlib", "re", "stat"},  # kernel_cache
}
NEEDS_NO_KERNELS = {"caret", "errors", "settings", "model", "language"}
# Families of engines share their contract and their explanations, not their structures.
ENGINE_FAMILIES = {"dense", "pivot", "cnf", "papers"}

# The packages of actors/, and what each may import of the others: a package, or one module of it.
ACTORS: dict[str, set[str]] = {
    "storage": set(),
    "cluster": set(),
    "server_settings": {"mailboxes.settings"},
    "telemetry": {"mailboxes.summary"},
    # Messages carry what the registry reads for a shard.
    "transport": {"cluster", "server_settings", "telemetry", "registry.columns"},
    "mailboxes": {"server_settings", "storage", "telemetry", "transport"},
    "shard": {"server_settings", "telemetry", "transport", "registry.columns"},
    # A coordinator answers with the client's result, and delivers to mailboxes that may be in its own process.
    "coordinator": {
        *{"server_settings", "telemetry", "transport"},
        *{"client.publish_result", "client.preparing", "mailboxes"},
    },
    "registry": {"server_settings", "storage", "telemetry", "transport"},
    # A client knows what the processes of a server answer, and nothing of how they work. Before there are any, `start(restore=…)` fills
    # their data folder.
    "client": {
        *{"cluster", "server_settings", "telemetry", "transport", "storage.backup", "storage.postgres.address"},
        *{"registry.columns", "shard.match_ranking"},
        *{"mailboxes.delivery", "mailboxes.delivery_batch", "mailboxes.delivery_runs", "mailboxes.event_content"},
        *{"mailboxes.settings", "mailboxes.stats", "mailboxes.summary", "mailboxes.offsets.offset_reading"},
    },
    # The command line uses what any program uses, and knows where servers are noted. It checks what `serve` is given before it connects.
    "command": {"client", "cluster.finding", "cluster.server_notes", "http.serving", "http.settings", "http.tokens"},
    # The HTTP interface is a client that also asks the registry and the mailboxes directly, because many of its requests wait at once.
    "http": {
        *{"client", "transport.calls", "cluster.probe", "telemetry", "registry.columns"},
        *{"mailboxes.delivery", "mailboxes.event_content", "storage.private_folder"},
    },
}
# The one place where the classes of all roles become Ray actors.
ASSEMBLY = "actors.transport.remote"
# Packages, or single modules, that may import ray.
MAY_IMPORT_RAY = {"actors.client", "actors.cluster", "actors.transport", "actors.registry.notifier"}

LIBRARY, SERVER = sources("ray_pubsub"), sources("actors")


def part(module: str) -> str:
    """The second part of a module's name: the layer of the library, the package of the actors."""
    return module.split(".")[1] if "." in module else ""


def layer(path: Path) -> str:
    return part(module_of(path))


def line(path: Path, module: str) -> str:
    return f"{shown(path)} imports {module}"


def test_the_library_does_not_know_the_server() -> None:
    """Not even inside a function; only `start` and `connect` are forwarded, when they are first used."""
    others = {"ray", "pyspark", "actors", "spark_bridge", "examples"}
    broken = [
        line(path, module)
        for path in LIBRARY
        for module in imports(path)
        if is_in(module, others) and (module_of(path) != "ray_pubsub" or not is_in(module, ["actors"]))
    ]
    check_rule(
        broken,
        rule="ray_pubsub/ works without a cluster: it imports none of " + ", ".join(sorted(others)),
        instead="put what needs a cluster into actors/ or spark_bridge/, and pass the library plain values",
    )


def test_importing_the_library_imports_no_cluster() -> None:
    program = "import sys, ray_pubsub; print([name for name in ('ray', 'pyspark', 'actors') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_layers_of_the_library_import_only_what_is_below_them() -> None:
    broken = [
        line(path, module)
        for path in LIBRARY
        if layer(path) in LAYERS
        for module in imports(path)
        if is_in(module, ["ray_pubsub"])
        and part(module) not in {*LAYERS[: LAYERS.index(layer(path)) + 1], "kernels"} - {""}
    ]
    check_rule(
        broken,
        rule="right imports left only: " + " ← ".join(LAYERS),
        instead="move what is needed to the lower layer, or let the caller, which is in a higher one, pass it in",
    )


def test_every_part_of_the_library_is_in_the_table() -> None:
    assert {layer(path) for path in LIBRARY} - {"", *LAYERS, "kernels", "workloads"} == set()


def test_what_is_below_the_columns_needs_no_kernels() -> None:
    broken = [
        line(path, module)
        for path in LIBRARY
        if layer(path) in NEEDS_NO_KERNELS
        for module in imports(path)
        if is_in(module, ["ray_pubsub.kernels", "numba"])
    ]
    check_rule(
        broken,
        rule=", ".join(sorted(NEEDS_NO_KERNELS)) + " compile nothing",
        instead="call the kernel from columns/ or above",
    )


def test_kernels_import_numpy_and_numba_only() -> None:
    broken = [
        line(path, module)
        for path in LIBRARY
        if layer(path) == "kernels"
        for module in imports(path)
        if not is_in(module, {*KERNELS_MAY_IMPORT, "ray_pubsub.kernels"})
    ]
    check_rule(
        broken,
        rule="kernels take arrays and give arrays; they import only " + ", ".join(sorted(KERNELS_MAY_IMPORT)),
        instead="let the caller turn objects into arrays, or NamedTuples of arrays",
    )


def test_families_of_engines_do_not_know_each_other() -> None:
    broken = [
        line(path, module)
        for path in sources("ray_pubsub/engines")
        for module in imports(path)
        for family in ENGINE_FAMILIES & {path.parent.name}
        if is_in(module, {f"ray_pubsub.engines.{other}" for other in ENGINE_FAMILIES - {family}})
    ]
    check_rule(
        broken,
        rule="the folders " + ", ".join(sorted(ENGINE_FAMILIES)) + " of ray_pubsub/engines/ do not import each other",
        instead="move what both need to ray_pubsub/engines/ itself",
    )


@pytest.mark.parametrize("own", ACTORS)
def test_a_package_of_the_server_imports_only_what_the_table_allows(own: str) -> None:
    allowed = {f"actors.{name}" for name in {own, *ACTORS[own]}}
    broken = [
        line(path, module)
        for path in SERVER
        if layer(path) == own and module_of(path) != ASSEMBLY
        for module in imports(path)
        if is_in(module, ["actors"]) and not is_in(module, allowed)
    ]
    check_rule(
        broken,
        rule=f"of actors/, {own} imports only itself, {', '.join(sorted(ACTORS[own]))} (table ACTORS in {Path(__file__).name})",
        instead="exchange a message type of actors/transport/, or move what both need below both, or change the table and say why",
    )


def test_every_package_of_the_server_is_in_the_table() -> None:
    assert {layer(path) for path in SERVER} - {""} == ACTORS.keys()


def test_few_packages_of_the_server_import_ray() -> None:
    broken = [
        line(path, module)
        for path in SERVER
        for module in imports(path)
        if is_in(module, ["ray"]) and not is_in(module_of(path), MAY_IMPORT_RAY)
    ]
    check_rule(
        broken,
        rule="of actors/ only these import ray: " + ", ".join(sorted(MAY_IMPORT_RAY)),
        instead="use actors/transport/ (calls with deadlines, object references), so that the rest runs and is tested without a cluster",
    )


def test_only_the_bridge_imports_spark() -> None:
    broken = [line(path, module) for path in SERVER for module in imports(path) if is_in(module, ["pyspark"])]
    check_rule(broken, rule="only spark_bridge/ imports pyspark", instead="move it to spark_bridge/")


def test_the_server_does_not_know_what_uses_it() -> None:
    above = ["spark_bridge", "examples", "benchmarks", "tests"]
    broken = [
        line(path, module)
        for path in sources("actors", "spark_bridge")
        for module in imports(path)
        if is_in(module, above) and not is_in(module, [module_of(path).partition(".")[0]])
    ]
    check_rule(
        broken,
        rule="actors ← spark_bridge ← examples, benchmarks, tests",
        instead="move what is needed to actors/ or spark_bridge/",
    )


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    """The rules above rest on `imports`: a rule that finds no import always holds."""
    path = tmp_path / "ray_pubsub" / "model" / "example.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import numpy as np, ray.data\n"
        "from ray_pubsub import errors\n"
        "from . import values\n"
        "from ..language.tree import Tree\n"
        "def late():\n    from pyspark.sql import SparkSession\n"
    )
    assert sorted(imports(path, tmp_path)) == [
        "numpy",
        "pyspark.sql.SparkSession",
        "ray.data",
        "ray_pubsub.errors",
        "ray_pubsub.language.tree.Tree",
        "ray_pubsub.model.values",
    ]


def test_a_broken_rule_is_reported_with_what_to_do() -> None:
    assert report(["a.py imports b"], "a does not know b", "pass it in").splitlines() == [
        "",
        "  a.py imports b",
        "rule: a does not know b",
        "instead: pass it in",
    ]
    with pytest.raises(pytest.fail.Exception, match="a does not know b"):
        check_rule(["a.py imports b"], rule="a does not know b", instead="pass it in")
    check_rule([], rule="a does not know b", instead="pass it in")
