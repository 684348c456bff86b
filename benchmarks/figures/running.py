"""Measures what is missing of a set of sweeps, in a few processes, with a bar of progress; then draws."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.figures.drawing import draw
from benchmarks.figures.measuring import measure_point
from benchmarks.figures.pictures import PICTURES, TABLES, Picture, TableOf
from benchmarks.figures.planning import PLANNING, attributes_of, measure_planning
from benchmarks.figures.priority import PRIORITY, measure_priority, points_of
from benchmarks.figures.results_file import ResultsFile, append_row
from benchmarks.figures.summary import write_summary
from benchmarks.figures.sweeps import SWEEPS, Scale
from benchmarks.figures.tables import write_table
from benchmarks.reference import register

__all__ = ["chosen_sweeps", "run"]

console = Console()


class Task(NamedTuple):
    """One point of a sweep, and the series that are not measured yet; none: the sweep has its own."""

    sweep: str
    place: int
    scale: Scale
    wanted: tuple[str, ...]


def chosen_sweeps(only: Iterable[str]) -> list[str]:
    """Returns the sweeps that the named figures and tables show; without names all."""
    names = list(only) or [*PICTURES, *TABLES]
    known: dict[str, Picture | TableOf] = {**PICTURES, **TABLES}
    return list(dict.fromkeys(known[name].sweep for name in names))


def x_of(sweep: str) -> str:
    if sweep in SWEEPS:
        return SWEEPS[sweep].x
    return PLANNING[sweep][0] if sweep in PLANNING else PRIORITY[sweep]


def run(scale: Scale, only: list[str], folder: Path, processes: int) -> None:
    started = time.perf_counter()
    sweeps = chosen_sweeps(only)
    files = {name: ResultsFile(folder / "data" / f"{name}.csv", scale.name) for name in sweeps}
    tasks = [task for name in sweeps for task in missing(name, scale, files[name])]
    failed: list[str] = []
    if tasks:
        measure(tasks, files, processes, failed)
    shown = set(only) or {*PICTURES, *TABLES}
    draw_all([PICTURES[name] for name in PICTURES if name in shown], files, folder, processes)
    for name in TABLES:
        if name in shown:
            write_table(TABLES[name], x_of(TABLES[name].sweep), files[TABLES[name].sweep], folder)
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    write_summary(files, folder)
    console.print(
        f"{len(shown)} figures and tables in {folder}, measurements in {folder / 'data'}; "
        f"{used:.0f} s of the processor in {time.perf_counter() - started:.0f} s"
    )
    if failed:
        raise SystemExit("\n".join(["these points failed; run the same command again to repeat them:", *failed]))


def draw_all(pictures: list[Picture], files: dict[str, ResultsFile], folder: Path, processes: int) -> None:
    """A picture takes about a second, so a set of them is shared out."""
    given = [(picture, x_of(picture.sweep), files[picture.sweep], folder) for picture in pictures]
    if processes == 1 or len(given) < 8:
        for each in given:
            draw(*each)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in [pool.submit(draw, *each) for each in given]:
            future.result()


def missing(name: str, scale: Scale, file: ResultsFile) -> list[Task]:
    done = file.done()
    if name in SWEEPS:
        sweep = SWEEPS[name]
        found = []
        for place, _ in sweep.chosen(scale):
            wanted = tuple(series for series in sweep.series if (place, series) not in done)
            if wanted:
                found.append(Task(name, place, scale, wanted))
        return found
    places = range(len(attributes_of(scale) if name in PLANNING else points_of(name, scale)))
    known = {place for place, _ in done}
    return [Task(name, place, scale, ()) for place in places if place not in known]


def perform(task: Task, path: Path) -> None:
    """Measures a point, in a process of its own, and appends each row as soon as it is there: at the papers' scale a point takes minutes.
    Rows have the seconds since the row before."""
    used, started = time.process_time(), time.perf_counter()
    for row in rows_of(task):
        now = time.process_time(), time.perf_counter()
        append_row(path, row | {"cpu_s": now[0] - used, "wall_s": now[1] - started})
        used, started = now


def rows_of(task: Task) -> Iterable[dict[str, Any]]:
    if task.sweep in SWEEPS:
        return measure_point(task.sweep, task.place, task.scale, task.wanted)
    if task.sweep in PLANNING:
        return measure_planning(task.sweep, task.place, task.scale)
    return measure_priority(task.sweep, task.place, task.scale)


def measure(tasks: list[Task], files: dict[str, ResultsFile], processes: int, failed: list[str]) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("measuring", total=len(tasks))

        if processes == 1:
            register()
            for task in tasks:
                perform(task, files[task.sweep].path)
                progress.update(bar, advance=1, description=task.sweep)
        else:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(processes, mp_context=context, initializer=register) as pool:
                waiting: dict[Future[None], Task] = {
                    pool.submit(perform, task, files[task.sweep].path): task for task in tasks
                }
                for future in as_completed(waiting):
                    task = waiting[future]
                    try:
                        future.result()
                    except Exception as error:
                        failed.append(f"{task.sweep}, point {task.place}: {type(error).__name__}: {error}")
                    progress.update(bar, advance=1, description=task.sweep)
    for file in files.values():
        file.read()
