"""python -m tests.package [--keep FOLDER]: builds the wheel and the sdist, installs them into fresh environments, and runs what the
documents show against them, in a folder that is not the tree's.

First the wheel alone: what matches in one process, without Ray; then with the extra `sigma`. Then, in a second environment, with the extras
`server` and `http`: the samples that start a server, and what mypy sees of the types. The sdist is installed into a third environment,
without dependencies, to see that it builds. The documentation is built too, and searched in a browser as a reader without a network does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.documents import blocks, extra_of
from tests.package.build import ROOT, build
from tests.package.site import check_site


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "dist", help="where the wheel and the sdist are put (default dist)"
    )
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="ray-pubsub-package-") as name:
        work = Path(name)
        check_site(work)
        wheel, sdist = build(keep, work, "wheel", "sdist")
        print(f"built {wheel.name} and {sdist.name}")
        plain = _environment(work / "plain", str(wheel))
        _run(
            plain, work, "the core has no Ray", ["-c", "import importlib.util as u; assert u.find_spec('ray') is None"]
        )
        _run_samples(plain, work, None)
        _run_command(plain, work, "doctor", "--json")
        _install(plain, f"{wheel}[sigma]")
        _run_samples(plain, work, "sigma")
        server = _environment(work / "server", f"{wheel}[server,http]")
        _run_samples(server, work, "server")
        _run_command(server, work, "serve", "--help")
        _check_types(server, work)
        source = _environment(work / "sdist", "setuptools")
        _install(source, "--no-deps", "--no-build-isolation", str(sdist))
    print(f"the package works; {keep} has it")
    return 0


def _environment(folder: Path, *wanted: str) -> Path:
    """A fresh virtual environment with what is wanted; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    _install(python, *wanted)
    return python


def _install(python: Path, *wanted: str) -> None:
    """In the versions of requirements.lock."""
    print(f"installing {wanted[-1].rpartition('/')[2]} into the environment {python.parents[1].name!r}", flush=True)
    quiet = ["--quiet", "--quiet", "--disable-pip-version-check"]
    pip = [str(python), "-m", "pip", "install", *quiet, "--constraint", str(ROOT / "requirements.lock")]
    subprocess.run([*pip, *wanted], check=True)


def _run_samples(python: Path, work: Path, extra: str | None) -> None:
    """In turn, in one process, as a reader would paste them."""
    listed = [(place, code) for place, code in blocks() if extra_of(code) == extra]
    program = "\n".join(
        f"exec(compile({code!r}, {place!r}, 'exec'), {{'__name__': '__main__'}})" for place, code in listed
    )
    (work / "samples.py").write_text(program)
    what = f"{len(listed)} samples of the documents ({'the core alone' if extra is None else f'extra {extra}'})"
    _run(python, work, what, [str(work / "samples.py")])


def _run_command(python: Path, work: Path, *arguments: str) -> None:
    """The program that the wheel has installed."""
    _run(python.with_name("ray-pubsub"), work, " ".join(("ray-pubsub", *arguments)), list(arguments))


def _check_types(python: Path, work: Path) -> None:
    """mypy, of this environment, reads the installed package only: without py.typed everything in it would be Any."""
    program = work / "typed_program.py"
    text = (ROOT / "tests" / "house" / "typed_program.py").read_text()
    program.write_text(text.partition("\n\ndef spark(")[0])  # the rest needs the extra spark
    of_others = ["--ignore-missing-imports", "--follow-imports", "silent", "--cache-dir", str(work / "types")]
    _run(
        Path(sys.executable), work, "types of the installed package",
        ["-m", "mypy", "--strict", "--python-executable", str(python), *of_others, str(program)],
    )  # fmt: skip


def _run(program: Path, folder: Path, what: str, arguments: list[str]) -> None:
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "PYTHONPATH")}
    environment["RAY_PUBSUB_RUNTIME_DIR"] = str(folder / "notes")
    done = subprocess.run(
        [str(program), *arguments], cwd=empty, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{what}: failed\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    print(f"  {what}: fine", flush=True)


if __name__ == "__main__":
    sys.exit(main())
