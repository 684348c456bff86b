"""python -m tests.package [--keep FOLDER]: builds the wheel and the sdist, installs them into fresh environments, and runs what the
documents show against them, in a folder that is not the tree's.

First the wheel alone: what matches in one process, without Ray. Then with the extra `server`: the samples that start one. The sdist is
installed into a third environment, without dependencies, to see that it builds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.documents import blocks, needs_a_cluster
from tests.package.build import ROOT, build


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "dist", help="where the wheel and the sdist are put (default dist)"
    )
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="ray-pubsub-package-") as name:
        work = Path(name)
        wheel, sdist = build(keep, work, "wheel", "sdist")
        print(f"built {wheel.name} and {sdist.name}")
        plain = _environment(work / "plain", f"{wheel}")
        _run(
            plain, work, "the core has no Ray", ["-c", "import importlib.util as u; assert u.find_spec('ray') is None"]
        )
        _run_samples(plain, work, on_a_cluster=False)
        _run(plain, work, "the command", ["-m", "actors.command", "doctor", "--json"])
        server = _environment(work / "server", f"{wheel}[server]")
        _run_samples(server, work, on_a_cluster=True)
        _environment(work / "sdist", "--no-deps", "--no-build-isolation", str(sdist), needs=("setuptools",))
    print(f"the package works; {keep} has it")
    return 0


def _environment(folder: Path, *wanted: str, needs: tuple[str, ...] = ()) -> Path:
    """A fresh virtual environment with what is wanted, in the versions of requirements.lock; returns its Python."""
    print(f"installing {wanted[-1].rpartition('/')[2]} into a fresh environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--constraint",
        str(ROOT / "requirements.lock"),
    ]
    if needs:
        subprocess.run([*pip, *needs], check=True)
    subprocess.run([*pip, *wanted], check=True)
    return python


def _run_samples(python: Path, work: Path, *, on_a_cluster: bool) -> None:
    """In turn, in one process, as a reader would paste them."""
    listed = [(place, code) for place, code in blocks() if needs_a_cluster(code) == on_a_cluster]
    program = "\n".join(
        f"exec(compile({code!r}, {place!r}, 'exec'), {{'__name__': '__main__'}})" for place, code in listed
    )
    (work / "samples.py").write_text(program)
    _run(python, work, f"{len(listed)} samples of the documents", [str(work / "samples.py")])


def _run(python: Path, folder: Path, what: str, arguments: list[str]) -> None:
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "PYTHONPATH")}
    environment["RAY_PUBSUB_RUNTIME_DIR"] = str(folder / "notes")
    done = subprocess.run(
        [str(python), *arguments], cwd=empty, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{what}: failed\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    print(f"  {what}: fine")


if __name__ == "__main__":
    sys.exit(main())
