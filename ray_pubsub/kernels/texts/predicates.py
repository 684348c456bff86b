"""From the bytes of a predicate to a leaf and its operands (layout.py).

A function that takes something returns where the next token begins, or FAILED.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_pubsub.kernels.compiled import piece
from ray_pubsub.kernels.texts.layout import (
    ABSENCE,
    BARE,
    BETWEEN,
    BOOLEAN,
    CALLED,
    CONSTANT,
    DATE,
    DOUBLE,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    LIKE,
    MEMBER,
    MOMENT,
    NUMBER,
    ODD_NUMBER,
    REGEXP,
    TIMESTAMP,
    UNKNOWN,
)
from ray_pubsub.kernels.texts.terms import JOINTS, copy_term, ends_predicate, is_quantifier, term_end
from ray_pubsub.kernels.texts.tokens import (
    AND,
    BETWEEN_WORD,
    CLOSE,
    COMMA,
    FAILED,
    ILIKE_WORD,
    IN_WORD,
    IS_WORD,
    LIKE_WORD,
    NONE,
    NOT_WORD,
    NULL_WORD,
    OPEN,
    QUOTE,
    REGEXP_WORD,
    is_escape,
    name_end,
    next_place,
    read_constant,
    read_name,
    read_operator,
    word_at,
)

__all__ = ["TextLimits", "keyword_at", "take_leaf", "take_unusual"]

PERCENT, LOW_LINE, LEAST_CAPITAL, LAST_CAPITAL = 0x25, 0x5F, 0x41, 0x5A


class TextLimits(NamedTuple):
    """Those of settings.py that the kernel watches, and whether every comparison with a text ignores case."""

    nesting_depth: int
    leaves: int
    set_size: int
    word_length: int
    pattern_length: int
    ignore_case: bool


@piece
def flipped(operator):
    """`5 < x` is `x > 5`."""
    if operator == LESS:
        return GREATER
    if operator == GREATER:
        return LESS
    if operator == LESS_OR_EQUAL:
        return GREATER_OR_EQUAL
    if operator == GREATER_OR_EQUAL:
        return LESS_OR_EQUAL
    return operator


@piece
def kind_read(kind):
    """What a constant will be when Python has read it."""
    if kind in (MOMENT, DATE):
        return TIMESTAMP
    return NUMBER if kind in (ODD_NUMBER, DOUBLE) else kind


@piece
def keyword_at(text, place, end):
    """The word that stands here, 0 for none, and where it ends."""
    stop = name_end(text, place, end)
    return word_at(text, place, stop), stop


@piece
def name_leaf(text, place, end, leaf, buffer, state, limits):
    leaf.name_start = state[2]
    place, state[2] = read_name(text, place, end, buffer, state[2])
    leaf.name_stop = state[2]
    if leaf.name_stop - leaf.name_start > limits.word_length:
        return FAILED
    # Python's names of computed attributes begin with a zero.
    return FAILED if place > 0 and buffer[leaf.name_start] == 0 else place


@piece
def take_constant(text, place, end, operands, buffer, state, limits):
    """One more operand. A number longer than any in use is left to Python, which knows its limit."""
    start = place
    place, state[2] = read_constant(text, place, end, operands[state[1]], buffer, state[2])
    if place < 0 or (place - start > limits.word_length and operands[state[1]].kind in (NUMBER, ODD_NUMBER)):
        return FAILED if place != NONE else NONE
    state[1] += 1
    return next_place(text, place, end)


@piece
def is_escaped(pattern, character, folded, buffer):
    """Returns whether a character follows every escape."""
    if character.stop == character.start:
        return True
    escape = buffer[character.start]
    if folded and 97 <= escape | 32 <= 122:
        return False
    place = pattern.start
    while place < pattern.stop:
        if buffer[place] == escape:
            place += 1
            if place == pattern.stop:
                return False
        place += 1
    return True


@piece
def take_pattern(text, place, end, leaf, operands, buffer, state, limits):
    """The string behind `like` or `regexp`, perhaps with its escape."""
    if place >= end or text[place] != QUOTE:
        return FAILED
    place = take_constant(text, place, end, operands, buffer, state, limits)
    if place < 0:
        return FAILED
    pattern = operands[state[1] - 1]
    if pattern.stop - pattern.start > limits.pattern_length:
        return FAILED
    if leaf.operator == REGEXP:
        return place
    # `abc%`, which is an interval, and `abc`, which is an equality, need no pattern.
    wild = pattern.start
    while wild < pattern.stop and buffer[wild] != PERCENT and buffer[wild] != LOW_LINE:
        wild += 1
    while wild < pattern.stop and buffer[wild] == PERCENT:
        wild += 1
    leaf.prefix = wild == pattern.stop
    escape = is_escape(text, place, end)
    if escape == NONE:
        return place
    leaf.escaped, leaf.prefix = True, False
    place = take_constant(text, escape, end, operands, buffer, state, limits)
    character = operands[state[1] - 1]
    # One character of ASCII, or none; others are left to Python, and so is a letter if case is ignored.
    if character.stop - character.start > 1:
        return FAILED
    return place if is_escaped(pattern, character, leaf.folded or limits.ignore_case, buffer) else FAILED


@piece
def take_list(text, place, end, operands, buffer, state, limits):
    """`(1, 2, null)`, of one kind."""
    if place >= end or text[place] != OPEN:
        return FAILED
    kind, count = UNKNOWN, 0
    while True:
        place = take_constant(text, next_place(text, place + 1, end), end, operands, buffer, state, limits)
        count += 1
        if place < 0 or place >= end or count > limits.set_size:
            return FAILED
        found = kind_read(operands[state[1] - 1].kind)
        if found != UNKNOWN:
            if kind not in (UNKNOWN, found):
                return FAILED
            kind = found
        if text[place] != COMMA:
            return next_place(text, place + 1, end) if text[place] == CLOSE else FAILED


@piece
def take_predicate(text, place, end, leaf, operands, buffer, state, limits):
    """One more leaf; where the next token begins, or FAILED."""
    start_leaf(leaf, state)
    after = take_constant(text, place, end, operands, buffer, state, limits)
    if after == FAILED:
        return FAILED
    if after >= 0:  # `5 < x`, or a constant where a condition is expected
        operator, behind = read_operator(text, after, end)
        if operator != NONE:
            leaf.operator = flipped(operator)
            return name_leaf(text, next_place(text, behind, end), end, leaf, buffer, state, limits)
        leaf.operator = CONSTANT
        kind = operands[state[1] - 1].kind
        return after if kind in (UNKNOWN, BOOLEAN) else FAILED
    place = name_leaf(text, place, end, leaf, buffer, state, limits)
    return FAILED if place < 0 else take_test(text, place, end, leaf, operands, buffer, state, limits)


@piece
def start_leaf(leaf, state):
    leaf.first = state[1]
    leaf.name_start = leaf.name_stop = state[2]
    leaf.negated = leaf.escaped = leaf.prefix = leaf.folded = leaf.is_term = False


@piece
def take_test(text, place, end, leaf, operands, buffer, state, limits):
    """What a leaf says of the attribute or value before it."""
    operator, behind = read_operator(text, place, end)
    if operator != NONE:
        leaf.operator = operator
        place = take_constant(text, next_place(text, behind, end), end, operands, buffer, state, limits)
        return FAILED if place < 0 else place
    word, stop = keyword_at(text, place, end)
    if word == IS_WORD:
        leaf.operator = ABSENCE
        word, stop = keyword_at(text, next_place(text, stop, end), end)
        if word == NOT_WORD:
            leaf.negated = True
            word, stop = keyword_at(text, next_place(text, stop, end), end)
        return next_place(text, stop, end) if word == NULL_WORD else FAILED
    if word == NOT_WORD:
        leaf.negated = True
        place = next_place(text, stop, end)
        word, stop = keyword_at(text, place, end)
    behind = next_place(text, stop, end)
    if word == IN_WORD:
        leaf.operator = MEMBER
        return take_list(text, behind, end, operands, buffer, state, limits)
    if word in (LIKE_WORD, REGEXP_WORD, ILIKE_WORD):
        leaf.operator = REGEXP if word == REGEXP_WORD else LIKE
        leaf.folded = word == ILIKE_WORD
        return take_pattern(text, behind, end, leaf, operands, buffer, state, limits)
    if word == BETWEEN_WORD:
        leaf.operator = BETWEEN
        place = take_constant(text, behind, end, operands, buffer, state, limits)
        if place < 0:
            return FAILED
        word, stop = keyword_at(text, place, end)
        if word != AND:
            return FAILED
        place = take_constant(text, next_place(text, stop, end), end, operands, buffer, state, limits)
        if place < 0:
            return FAILED
        low, high = kind_read(operands[state[1] - 2].kind), kind_read(operands[state[1] - 1].kind)
        return place if low in (high, UNKNOWN) or high == UNKNOWN else FAILED
    leaf.operator = BARE
    return FAILED if leaf.negated else place


@piece
def take_computed(text, place, end, leaf, operands, buffer, state, limits):
    """One more leaf, on a value that is more than a name."""
    start_leaf(leaf, state)
    leaf.is_term = True
    after = take_constant(text, place, end, operands, buffer, state, limits)
    if after >= 0:  # `5 < length(x)`
        operator, behind = read_operator(text, after, end)
        if operator != NONE:
            place = next_place(text, behind, end)
            stop, after = term_end(text, place, end, False, state, limits)
            leaf.operator = flipped(operator)
            if stop == FAILED or is_quantifier(text, place, end):
                return FAILED
            return FAILED if copy_term(text, place, stop, leaf, buffer, state) == FAILED else after
    state[1], state[2] = leaf.first, leaf.name_start
    stop, after = term_end(text, place, end, False, state, limits)
    if stop == FAILED or is_quantifier(text, place, end):
        return FAILED
    if copy_term(text, place, stop, leaf, buffer, state) == FAILED:
        return FAILED
    after = take_test(text, after, end, leaf, operands, buffer, state, limits)
    return FAILED if leaf.operator == BARE else after


@piece
def take_called(text, place, end, leaf, buffer, state, limits):
    """One more leaf, cut out as a whole: `list_contains(tags, 'a')`, `a < b`."""
    start_leaf(leaf, state)
    leaf.operator = CALLED
    stop, after = term_end(text, place, end, True, state, limits)
    if stop == FAILED or copy_term(text, place, stop, leaf, buffer, state) == FAILED:
        return FAILED
    return after


@piece
def take_unusual(text, place, end, leaf, operands, buffer, state, limits):
    """One more leaf, on whatever is neither a name nor wrong."""
    start = state[1], state[2], state[JOINTS]
    after = take_computed(text, place, end, leaf, operands, buffer, state, limits)
    if after >= 0 and ends_predicate(text, after, end):
        return after
    state[1], state[2], state[JOINTS] = start
    after = take_called(text, place, end, leaf, buffer, state, limits)
    if after >= 0 and ends_predicate(text, after, end):
        return after
    state[1], state[2], state[JOINTS] = start
    return FAILED


@piece
def take_leaf(text, place, end, leaf, operands, buffer, state, limits):
    """One more leaf, whatever it is on; where the next token begins, or FAILED."""
    start = state[1], state[2]
    after = take_predicate(text, place, end, leaf, operands, buffer, state, limits)
    if after >= 0 and ends_predicate(text, after, end):
        return after
    state[1], state[2] = start
    return take_unusual(text, place, end, leaf, operands, buffer, state, limits)
