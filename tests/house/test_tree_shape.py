"""Files of one idea, named after it, in folders that can be read at a glance."""

from __future__ import annotations

from collections import Counter

from tests.house.source_tree import FOLDERS, check_rule, shown, sources

MOST_MODULES = 20
"""In one folder, `__init__` not counted."""
MOST_LINES = 450
BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "and"}


def test_no_folder_holds_more_modules_than_a_reader_takes_in() -> None:
    counted = Counter(shown(path.parent) for path in sources(*FOLDERS) if path.name != "__init__.py")
    broken = [f"{folder}/ holds {count} modules" for folder, count in sorted(counted.items()) if count > MOST_MODULES]
    check_rule(
        broken,
        rule=f"a folder holds at most {MOST_MODULES} modules",
        instead="move those that play one role into a folder named after the role",
    )


def test_no_file_is_too_long_to_hold_one_idea() -> None:
    lengths = {shown(path): path.read_text().count("\n") for path in sources(*FOLDERS)}
    broken = [f"{path} has {length} lines" for path, length in lengths.items() if length > MOST_LINES]
    check_rule(
        broken,
        rule=f"a file has at most {MOST_LINES} lines, most have fewer than 300",
        instead="find its second idea, and give that a file with its name",
    )


def test_no_file_is_a_drawer() -> None:
    broken = [
        shown(path)
        for path in sources(*FOLDERS)
        if any(BAD_NAMES & set(part.lower().split("_")) for part in shown(path).removesuffix(".py").split("/"))
        and not path.name.startswith("test_")
    ]
    check_rule(
        broken,
        rule="no name contains " + ", ".join(sorted(BAD_NAMES)),
        instead="name the file after the one thing that it holds; if it holds two, make two files",
    )
