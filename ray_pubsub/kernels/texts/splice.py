"""Puts other predicates in the place of those that Python has parsed (layout.CALLED)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, piece
from ray_pubsub.kernels.texts.layout import CALLED, LEAF, OPERAND
from ray_pubsub.kernels.texts.negation import mark_negated

__all__ = ["NO_OPERANDS", "Parts", "called_leaves", "splice"]

NO_OPERANDS = np.empty(0, LEAF), np.empty(0, OPERAND)


class Parts(NamedTuple):
    """Programs, each with leaves of its own: part k has the program[program_offsets[k]:program_offsets[k + 1]] and the
    leaves[leaf_offsets[k]:leaf_offsets[k + 1]], which the program numbers from 0 on. One leaf more says where the operands end."""

    leaves: Any
    operands: Any
    program: Any
    program_offsets: Any
    leaf_offsets: Any


@compiled
def called_leaves(parsed, leaves, longest):
    """Returns which leaves are CALLED, which text each is in, and whether it is negated there. `leaves`: how many there are; `longest`: the
    largest program."""
    found, owner, odd = np.empty(leaves, np.int64), np.empty(leaves, np.int64), np.empty(leaves, np.int64)
    frames, negated = np.zeros(longest + 2, np.int64), np.zeros(longest + 2, np.int64)
    count = 0
    for text in range(len(parsed.depth)):
        start, stop = parsed.program_offsets[text], parsed.program_offsets[text + 1]
        some = False
        for leaf in range(parsed.leaf_offsets[text], parsed.leaf_offsets[text + 1]):
            some |= parsed.leaves[leaf].operator == CALLED
        if not some:
            continue
        mark_negated(parsed.program, start, stop, frames, negated)
        for place in range(start, stop):
            item = parsed.program[place]
            if item >= 0 and parsed.leaves[item].operator == CALLED:
                found[count], owner[count], odd[count] = item, text, negated[place - start]
                count += 1
    return found[:count].copy(), owner[:count].copy(), odd[:count].copy()


@piece
def copy_leaf(source, operands, number, target, target_operands, at, operand):
    """Copies a leaf with its operands. Returns where the next operand goes."""
    target[at] = source[number]
    target[at].first = operand
    for place in range(source[number].first, source[number + 1].first):
        target_operands[operand] = operands[place]
        operand += 1
    return operand


@compiled
def splice(parsed, part_of, parts, room, empty):
    """Returns leaves, operands, program, program_offsets and leaf_offsets as in Parsed, with the part part_of[leaf] in the place of each
    leaf for which this is not negative. `room`: how many leaves, operands and program items there are at most; `empty`: arrays of
    leaves and of operands."""
    leaves, operands = np.empty(room[0] + 1, empty[0].dtype), np.empty(room[1], empty[1].dtype)
    program = np.empty(room[2], np.int32)
    texts = len(parsed.depth)
    program_offsets, leaf_offsets = np.zeros(texts + 1, np.int64), np.zeros(texts + 1, np.int64)
    leaf = operand = item = 0
    for text in range(texts):
        for place in range(parsed.program_offsets[text], parsed.program_offsets[text + 1]):
            number = parsed.program[place]
            if number < 0:
                program[item] = number
                item += 1
                continue
            part = part_of[number]
            if part < 0:
                program[item] = leaf
                item += 1
                operand = copy_leaf(parsed.leaves, parsed.operands, number, leaves, operands, leaf, operand)
                leaf += 1
                continue
            for inner in range(parts.program_offsets[part], parts.program_offsets[part + 1]):
                program[item] = parts.program[inner] if parts.program[inner] < 0 else leaf + parts.program[inner]
                item += 1
            for inner in range(parts.leaf_offsets[part], parts.leaf_offsets[part + 1]):
                operand = copy_leaf(parts.leaves, parts.operands, inner, leaves, operands, leaf, operand)
                leaf += 1
        program_offsets[text + 1], leaf_offsets[text + 1] = item, leaf
    leaves[leaf].first = operand
    return leaves[: leaf + 1], operands[:operand], program[:item], program_offsets, leaf_offsets
