"""Groups the results of a text search by string, and converts found texts to the patterns that they belong to."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled

__all__ = ["patterns_of_texts", "texts_by_string"]


@compiled
def texts_by_string(string, text, offsets, out):
    """Counting sort of pairs. String i has the texts out[offsets[i]:offsets[i + 1]] in the end; `offsets` comes zeroed. What a single pass
    of a search finds is in order already."""
    strings, pairs = len(offsets) - 1, len(string)
    ordered = True
    for pair in range(pairs):
        ordered &= string[pair] >= string[max(pair - 1, 0)]
        offsets[string[pair] + 1] += 1
    for number in range(strings):
        offsets[number + 1] += offsets[number]
    if ordered:
        out[:] = text
        return
    for pair in range(pairs):
        target = offsets[string[pair]]
        out[target] = text[pair]
        offsets[string[pair]] = target + 1
    for number in range(strings, 0, -1):
        offsets[number] = offsets[number - 1]
    offsets[0] = 0


@compiled
def patterns_of_texts(offsets, texts, list_offsets, patterns, out_offsets, out):
    """Text t stands for patterns[list_offsets[t]:list_offsets[t + 1]]; writes what the texts of each string stand for, in the same form.
    `out` has room for all."""
    filled = 0
    for string in range(len(offsets) - 1):
        out_offsets[string] = filled
        for place in range(offsets[string], offsets[string + 1]):
            for number in range(list_offsets[texts[place]], list_offsets[texts[place] + 1]):
                out[filled] = patterns[number]
                filled += 1
    out_offsets[len(offsets) - 1] = filled
