"""Kernels take structs: a reader of a call sees names, not a row of forty arrays."""

from __future__ import annotations

import ast

from tests.house.source_tree import check_rule, shown, sources

MOST_PARAMETERS = 8


def long_kernels() -> dict[str, str]:
    """Functions of kernels/ with too many parameters, by place: what a reader needs to see."""
    return {
        f"{shown(path)}:{node.lineno}": f"{node.name} has {len(node.args.args)} parameters"
        for path in sources("ray_pubsub/kernels")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and len(node.args.args) > MOST_PARAMETERS
    }


def test_no_kernel_has_more_parameters_than_a_reader_can_tell_apart() -> None:
    check_rule(
        [f"{place}: {what}" for place, what in long_kernels().items()],
        rule=f"a kernel has at most {MOST_PARAMETERS} parameters",
        instead="pass NamedTuples of arrays; where the call must be quick, plain tuples to which the kernel gives names",
    )
