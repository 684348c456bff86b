"""Decides `like` patterns with `_`, or with several texts, on bytes of UTF-8.

A program has a number per byte of text, ANY_ONE for `_` and ANY_RUN for `%`. Only the last `%` is ever tried again: what an earlier one
could take more, the last one can take as well.
"""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["ANY_ONE", "ANY_RUN", "like_answers"]

ANY_ONE, ANY_RUN = -1, -2


@inlined
def _next_character(data, place, end):
    place += 1
    while place < end and data[place] & 0xC0 == 0x80:
        place += 1
    return place


@compiled
def like_answers(data, start, stop, pairs, offsets, programs, out):
    """out[i] = whether string pairs[0][i] is data[start:stop] that pattern pairs[1][i] matches; pattern p has the program
    programs[offsets[p]:offsets[p + 1]]."""
    strings, patterns = pairs
    for number in range(len(strings)):
        place, end = start[strings[number]], stop[strings[number]]
        step, last = offsets[patterns[number]], offsets[patterns[number] + 1]
        after_run, retry = -1, place
        holds = True
        while place < end or step < last:
            if step < last and programs[step] == ANY_RUN:
                step += 1
                after_run, retry = step, place
                if step == last:
                    break
                continue
            if step < last and place < end:
                if programs[step] == ANY_ONE:
                    step, place = step + 1, _next_character(data, place, end)
                    continue
                if programs[step] == data[place]:
                    step, place = step + 1, place + 1
                    continue
            if after_run < 0 or retry >= end:
                holds = False
                break
            retry = _next_character(data, retry, end)
            step, place = after_run, retry
        out[number] = holds
