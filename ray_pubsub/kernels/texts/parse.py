"""From the bytes of many texts to their predicates and programs (layout.py): language/parser.py's precedence climbing, without objects.

A value that is more than a name is cut out as it is written (terms.py), and so is a predicate that only Python can read. A text with
anything else that is unexpected, an error or a limit that is exceeded, is left out: language/parser.py reads it, or says what is wrong.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, piece
from ray_pubsub.kernels.texts.layout import LIKE, MEMBER, NOT, STRING
from ray_pubsub.kernels.texts.predicates import keyword_at, take_leaf, take_unusual
from ray_pubsub.kernels.texts.terms import DEPTH, JOINTS, LEVEL, ends_predicate
from ray_pubsub.kernels.texts.tokens import AND, CLOSE, NOT_WORD, OPEN, OR, next_place

__all__ = ["parse_texts"]


@piece
def ignores_case(leaf, operands, last):
    """Returns whether case would matter in a predicate: one on texts, other than a regular expression."""
    if leaf.operator > MEMBER and leaf.operator != LIKE:
        return False
    for place in range(leaf.first, last):  # noqa: SIM110 - compiled code knows no any() of a generator
        if operands[place].kind == STRING:
            return True
    return False


@piece
def put_leaf(leaves, operands, program, state, limits):
    """Appends the leaf that was taken to the program."""
    leaf = leaves[state[0]]
    if limits.ignore_case:
        leaf.folded |= ignores_case(leaf, operands, state[1])
    program[state[3]] = state[0]
    state[3] += 1
    state[0] += 1


@piece
def parse_text(text, place, end, parsed, state, limits, levels):
    """Writes one text's leaves and program; whether it was read. `state`: how many leaves, operands, bytes of the buffer and items of
    programs there are, and what terms.py counts. `levels`: what is around the parentheses that are open."""
    leaves, operands, program, buffer = parsed.leaves, parsed.operands, parsed.program, parsed.buffer
    alternatives, alternative_depth, together, together_depth, level, count = 0, 0, 0, 0, 0, 0
    place = next_place(text, place, end)
    state[JOINTS] = 0
    while True:
        negations = 0
        word, stop = keyword_at(text, place, end)
        while word == NOT_WORD:
            negations += 1
            place = next_place(text, stop, end)
            word, stop = keyword_at(text, place, end)
        if place < end and text[place] == OPEN:
            if level >= limits.nesting_depth:
                return False
            around = levels[level]
            around[0], around[1], around[2], around[3] = alternatives, alternative_depth, together, together_depth
            around[4], around[5], around[6] = negations, place, count
            around[7], around[8], around[9], around[10] = state[0], state[1], state[2], state[3]
            level += 1
            alternatives, alternative_depth, together, together_depth = 0, 0, 0, 0
            place = next_place(text, place + 1, end)
            continue
        state[LEVEL] = level
        place = take_leaf(text, place, end, leaves[state[0]], operands, buffer, state, limits)
        while place < 0 and level > 0:  # perhaps a parenthesis begins a value
            level -= 1
            around = levels[level]
            alternatives, alternative_depth, together, together_depth = around[0], around[1], around[2], around[3]
            negations, place, count = around[4], around[5], around[6]
            state[0], state[1], state[2], state[3] = around[7], around[8], around[9], around[10]
            state[LEVEL] = level
            place = take_unusual(text, place, end, leaves[state[0]], operands, buffer, state, limits)
        if place < 0:
            return False
        put_leaf(leaves, operands, program, state, limits)
        count += 1
        depth = 1
        while True:
            if negations & 1:
                program[state[3]] = NOT
                state[3] += 1
            together += 1
            together_depth = max(together_depth, depth + negations)
            word, stop = keyword_at(text, place, end)
            if word == AND:
                break
            if together > 1:
                program[state[3]] = -2 * together
                state[3] += 1
                together_depth += 1
            alternatives += 1
            alternative_depth = max(alternative_depth, together_depth)
            together, together_depth = 0, 0
            if word == OR:
                break
            if alternatives > 1:
                program[state[3]] = -(2 * alternatives + 1)
                state[3] += 1
                alternative_depth += 1
            depth = alternative_depth
            if level == 0:
                state[DEPTH] = depth
                return place == end and depth <= limits.nesting_depth and count + state[JOINTS] <= limits.leaves
            if place >= end or text[place] != CLOSE:
                return False
            place = next_place(text, place + 1, end)
            level -= 1
            around = levels[level]
            alternatives, alternative_depth, together, together_depth = around[0], around[1], around[2], around[3]
            negations = around[4]
            if not ends_predicate(text, place, end):  # what was in parentheses is a value
                place, count = around[5], around[6] + 1
                state[0], state[1], state[2], state[3] = around[7], around[8], around[9], around[10]
                state[LEVEL] = level
                place = take_unusual(text, place, end, leaves[state[0]], operands, buffer, state, limits)
                if place < 0:
                    return False
                put_leaf(leaves, operands, program, state, limits)
                depth = 1
        place = next_place(text, stop, end)


@compiled
def parse_texts(data, start, stop, limits, parsed):
    """Parses data[start[t]:stop[t]] for all t; read[t] says whether it was read. Returns also how many leaves, operands, bytes and items
    were written."""
    state = np.zeros(7, np.int64)
    levels = np.zeros((limits.nesting_depth + 1, 11), np.int64)
    read = np.zeros(len(start), np.bool_)
    before = state.copy()
    for number in range(len(start)):
        before[:] = state
        read[number] = parse_text(data, start[number], stop[number], parsed, state, limits, levels)
        if not read[number]:
            state[:] = before
        parsed.leaf_offsets[number + 1] = state[0]
        parsed.program_offsets[number + 1] = state[3]
        parsed.depth[number] = state[DEPTH]
    parsed.leaves[state[0]].first = state[1]
    return read, state
