"""Where a value that is more than a name ends: `lower(x)`, `price * 2`, `case when … end`.

Nothing in it is read; Python parses each distinct one, and refuses what is not one value. So this only has to stop where
language/tokens.py would see the same word or sign.
"""

from __future__ import annotations

from ray_pubsub.kernels.compiled import piece
from ray_pubsub.kernels.texts.tokens import (
    AND,
    BACKTICK,
    BETWEEN_WORD,
    CLOSE,
    COMMA,
    DOLLAR,
    DOT,
    DOUBLE_QUOTE,
    FAILED,
    ILIKE_WORD,
    NOT_WORD,
    NULL_WORD,
    OPEN,
    OR,
    QUOTE,
    UNDERSCORE,
    name_end,
    next_place,
    stands_before_string,
    word_at,
)

__all__ = ["DEPTH", "JOINTS", "LEVEL", "copy_term", "ends_predicate", "is_quantifier", "term_end"]

JOINTS, LEVEL, DEPTH = 4, 5, 6
"""What is counted in `state`: the words `and` and `or` inside of values, the parentheses around the predicate that is read, and the depth
of the text."""
OPEN_BRACKET, CLOSE_BRACKET, BAR = 0x5B, 0x5D, 0x7C
CASE_LETTERS, END_LETTERS = 0x63617365, 0x656E64
ANY_LETTERS, ALL_LETTERS = 0x616E79, 0x616C6C


@piece
def letters(text, start, stop):
    """A word of up to four letters as one number, whatever their case."""
    if stop - start > 4:
        return 0
    bits = 0
    for place in range(start, stop):
        bits = bits << 8 | (text[place] | 32)
    return bits


@piece
def is_part_of_word(byte):
    return 97 <= byte | 32 <= 122 or 48 <= byte <= 57 or byte in (UNDERSCORE, DOLLAR) or byte >= 128


@piece
def quoted_end(text, place, end):
    """Behind what is quoted here, or FAILED. A doubled quote looks like the end of one and the beginning of another, which is as good."""
    quote = text[place]
    place += 1
    while place < end and text[place] != quote:
        place += 1
    return place + 1 if place < end else FAILED


@piece
def begins_case(text, stop, end):
    """Returns whether the word `case` that ends here begins an expression: a value follows, or a word that cannot follow an attribute."""
    place = next_place(text, stop, end)
    if place >= end:
        return False
    byte = text[place]
    if byte in (QUOTE, DOUBLE_QUOTE, BACKTICK, OPEN) or (48 <= byte <= 57 and place > stop):
        return True
    after = name_end(text, place, end)
    if after == place:
        return False
    word = word_at(text, place, after)
    return word == 0 or (word >= NULL_WORD and word != ILIKE_WORD)


@piece
def ends_predicate(text, place, end):
    """Returns whether what stands here may follow a predicate."""
    if place >= end or text[place] == CLOSE:
        return True
    word = word_at(text, place, name_end(text, place, end))
    return word in (AND, OR)


@piece
def is_quantifier(text, place, end):
    """Returns whether `any` or `all` stands here, which are no values."""
    stop = name_end(text, place, end)
    return letters(text, place, stop) in (ANY_LETTERS, ALL_LETTERS) and stop - place == 3


@piece
def term_end(text, place, end, whole, state, limits):
    """Where the value that begins here ends, or with `whole` the predicate, and where the next token begins; FAILED if none does."""
    depth, cases, ranges, stop = 0, 0, 0, place
    while place < end:
        byte = text[place]
        if byte in (QUOTE, DOUBLE_QUOTE, BACKTICK):
            place = quoted_end(text, place, end)
            if place == FAILED:
                return FAILED, FAILED
        elif byte in (OPEN, OPEN_BRACKET):
            depth += 1
            place += 1
            if depth + state[LEVEL] > limits.nesting_depth:
                return FAILED, FAILED
        elif byte in (CLOSE, CLOSE_BRACKET):
            if depth == 0:
                break
            depth -= 1
            place += 1
        elif is_part_of_word(byte):
            after = place
            while after < end and is_part_of_word(text[after]):
                after += 1
            word = word_at(text, place, after)
            small = letters(text, place, after)
            if small == CASE_LETTERS and begins_case(text, after, end):
                depth += 1
                cases += 1
            elif small == END_LETTERS and cases > 0:
                depth -= 1
                cases -= 1
            elif depth > 0:
                state[JOINTS] += word in (AND, OR)
            elif word == OR or (word == AND and ranges == 0):
                break
            elif word == AND:
                ranges -= 1
            elif NOT_WORD <= word < NULL_WORD or (word == ILIKE_WORD and stands_before_string(text, after, end)):
                if not whole:
                    break
                ranges += word == BETWEEN_WORD
            place = after
        elif byte in (60, 61, 62, 33):  # < = > !
            if depth == 0 and not whole:
                break
            place += 1
        elif byte in (DOT, 42, 43, 45, 47, 37, BAR) or (byte == COMMA and depth > 0):  # * + - / %
            place += 1
        else:
            return FAILED, FAILED
        stop = place
        place = next_place(text, place, end)
    return stop if depth == 0 else FAILED, place


@piece
def copy_term(text, place, stop, leaf, buffer, state):
    """Copies the text of a value; FAILED if there is none."""
    leaf.name_start = state[2]
    for at in range(place, stop):
        buffer[state[2]] = text[at]
        state[2] += 1
    leaf.name_stop = state[2]
    return FAILED if stop <= place else stop
