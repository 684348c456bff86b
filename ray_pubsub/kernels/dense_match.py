"""One event against dense clauses: clustered bucket bitmaps (kernels/clustering.py, kernels/bitmaps.py).

    1. Outer bitmaps, ANDed over the columns, leave the words of 64 clauses that may hold a match.
    2. Lines of 512 bits with a live word are ANDed column by column, the most selective first, over one flat list of the lines of all
       blocks, with prefetch; empty lines leave the list. Memory latency is the limit, so what counts is lines touched.
    3. Bits left, somewhat more than the matches, are compared by their 8-bit codes: one cache line, which also holds the number.
    4. Equal codes are settled by the exact bound of that very column.

This is DEXIN's inclusive method after GEM's cached bit sets, with buckets for caches, so that no boundary is ever replayed. The blocks are
separate allocations; `table` holds their addresses (bitmaps, outer, rows, exact), and whoever calls keeps them alive.
"""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ray_pubsub.kernels.clustering import EDGES, FREE_LOW, LINE, WORD
from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import bytes_equal, bytes_greater, line_and, line_fill, load_int32, prefetch_address

__all__ = ["match_dense"]

ZERO, ONE, ALL_ONES, BYTE = np.uint64(0), np.uint64(1), ~np.uint64(0), np.uint64(255)
AHEAD = 16  # prefetch distance; 16 to 48 are equal within noise
VERIFY_COST = 2.5  # of one candidate, in ANDs of a line; 2 to 4 are equal within noise


@inlined
def _ask_lane(place, candidates, lanes, parts, table, columns):
    candidate = candidates[place]
    lane = np.int64(0)
    for part in range(parts):
        bits = lanes[place * parts + part]
        lane = part * 32 + np.int64(trailing_zeros(bits)) if bits != 0 else lane
    prefetch_address(table[candidate >> 16, 3] + (np.int64(candidate & 65535) * 2 * columns + lane) * 4)


@compiled
def _match_event(
    event,
    edges,
    bucket,
    group,
    rate,
    table,
    buckets,
    groups,
    found_bits,
    lines,
    numbers,
    places,
    candidates,
    lanes,
    out,
    filled,
):
    """Writes the numbers of the matching clauses to out[filled:]; returns the new fill."""
    columns = edges.shape[0]
    blocks = table.shape[0]
    # Codes of the event; the columns in the order of the share they let pass.
    code = np.empty(columns, np.int64)
    turn = np.empty(columns, np.int64)
    share = np.empty(columns, np.float64)
    row_at = np.empty(columns, np.int64)
    for column in range(columns):
        value = event[column]
        below = 0
        if value != FREE_LOW:
            above = EDGES
            while below < above:
                middle = (below + above) >> 1
                if edges[column, middle] <= value:
                    below = middle + 1
                else:
                    above = middle
            below += 1
        code[column] = below
        row_at[column] = (column * groups + group[below]) * 128
        passing = rate[column, group[below]]
        place = column
        while place > 0 and share[place - 1] > passing:
            share[place] = share[place - 1]
            turn[place] = turn[place - 1]
            place -= 1
        share[place] = passing
        turn[place] = column
    # 1. Live words per block, as one flat list of live lines; dead words of a live line start as zero.
    live = np.empty(16, np.uint64)
    live_at = live.ctypes.data
    bits_at = found_bits.ctypes.data
    first = (turn[0] * buckets + bucket[code[turn[0]]]) * 8192
    line_count = 0
    words = 0
    for block in range(min(2, blocks)):
        for column in range(columns):
            prefetch_address(table[block, 1] + row_at[column])
            prefetch_address(table[block, 1] + row_at[column] + 64)
    for block in range(blocks):
        if block + 2 < blocks:
            for column in range(columns):
                prefetch_address(table[block + 2, 1] + row_at[column])
                prefetch_address(table[block + 2, 1] + row_at[column] + 64)
        live[:] = ALL_ONES
        some = ZERO
        for column in range(columns):
            row = table[block, 1] + row_at[column]
            some = line_and(live_at, live_at, row) | line_and(live_at + 64, live_at + 64, row + 64)
        if some == ZERO:
            continue
        bitmaps = table[block, 0]
        for word in range(16):
            left = live[word]
            while left != ZERO:
                byte = trailing_zeros(left) >> np.uint64(3)
                bits = (left >> (byte * np.uint64(8))) & BYTE
                left &= ~(BYTE << (byte * np.uint64(8)))
                line = word * 8 + np.int64(byte)
                prefetch_address(bitmaps + line * 64 + first)
                lines[line_count] = bitmaps + line * 64
                numbers[line_count] = block * 128 + line
                line_fill(bits_at + line_count * 64, bits)
                line_count += 1
                bits -= (bits >> ONE) & np.uint64(0x55)
                bits = (bits & np.uint64(0x33)) + ((bits >> np.uint64(2)) & np.uint64(0x33))
                words += np.int64((bits + (bits >> np.uint64(4))) & np.uint64(15))
    # 2. Column by column over the list. Stops when verifying what is expected to be left is cheaper than more ANDs.
    expected = words * float(WORD)
    for step in range(columns):
        offset = (turn[step] * buckets + bucket[code[turn[step]]]) * 8192
        for place in range(min(AHEAD, line_count)):
            prefetch_address(lines[place] + offset)
        kept = 0
        for place in range(line_count):
            prefetch_address(lines[min(place + AHEAD, line_count - 1)] + offset)
            some = line_and(bits_at + kept * 64, bits_at + place * 64, lines[place] + offset)
            lines[kept] = lines[place]
            numbers[kept] = numbers[place]
            kept += some != ZERO
        line_count = kept
        expected *= share[step]
        rest = 1.0
        for later in range(step + 1, columns):
            rest *= share[later]
        if expected * (1 - rest) * VERIFY_COST < 0.7 * line_count * (columns - 1 - step):
            break
    # 3. Words that are not zero, without branches; then their bits; then the codes of those clauses.
    word_count = 0
    for line in range(line_count):
        start = np.int64(numbers[line]) * LINE
        for word in range(8):
            bits = found_bits[line * 8 + word]
            found_bits[word_count] = bits
            places[word_count] = start + word * WORD
            word_count += bits != ZERO
    count = 0
    for word in range(word_count):
        bits = found_bits[word]
        while bits != ZERO:
            candidates[count] = places[word] + trailing_zeros(bits)
            count += 1
            bits &= bits - ONE
    if count == 0:
        return filled
    parts = (2 * columns + 35) // 32
    stride = parts * 32
    key = np.zeros(stride, np.uint8)
    used = np.zeros(parts, np.uint32)
    doubtful = np.zeros(parts, np.uint32)
    for column in range(columns):
        key[column] = code[column]
        key[columns + column] = 255 - code[column]
        for lane in (column, columns + column):
            bit = np.uint32(1) << np.uint32(lane & 31)
            used[lane >> 5] |= bit
            if code[column] > 0:  # absent: equality (0 = 0) is certain
                doubtful[lane >> 5] |= bit
    key_at = key.ctypes.data
    for place in range(min(AHEAD, count)):
        prefetch_address(table[candidates[place] >> 16, 2] + np.int64(candidates[place] & 65535) * stride)
    unsettled = 0
    for place in range(count):
        candidate = candidates[min(place + AHEAD, count - 1)]
        prefetch_address(table[candidate >> 16, 2] + np.int64(candidate & 65535) * stride)
        candidate = candidates[place]
        row = table[candidate >> 16, 2] + np.int64(candidate & 65535) * stride
        wrong = np.uint32(0)
        unsure = np.uint32(0)
        for part in range(parts):
            wrong |= bytes_greater(row + part * 32, key_at + part * 32) & used[part]
            equal = bytes_equal(row + part * 32, key_at + part * 32) & doubtful[part]
            lanes[unsettled * parts + part] = equal
            unsure |= equal
        right = wrong == np.uint32(0)
        out[filled] = load_int32(row + stride - 4)
        candidates[unsettled] = candidate
        filled += right & (unsure == np.uint32(0))
        unsettled += right & (unsure != np.uint32(0))
    # 4. The exact bounds of the lanes that were equal, nearly always one.
    for place in range(min(AHEAD, unsettled)):
        _ask_lane(place, candidates, lanes, parts, table, columns)
    for place in range(unsettled):
        _ask_lane(min(place + AHEAD, unsettled - 1), candidates, lanes, parts, table, columns)
        candidate = candidates[place]
        exact = table[candidate >> 16, 3] + np.int64(candidate & 65535) * 8 * columns
        holds = True
        for part in range(parts):
            bits = lanes[place * parts + part]
            while bits != 0:
                lane = part * 32 + np.int64(trailing_zeros(bits))
                bound = load_int32(exact + lane * 4)
                if lane < columns:
                    holds &= bound <= event[lane]
                else:
                    holds &= event[lane - columns] <= bound
                bits &= bits - np.uint32(1)
        out[filled] = load_int32(table[candidate >> 16, 2] + np.int64(candidate & 65535) * stride + stride - 4)
        filled += holds
    return filled


@compiled
def match_dense(
    first_event, offsets, column, code, edges, bucket, group, rate, table, buckets, groups, clauses,
    found_bits, lines, numbers, places, candidates, lanes, out_offsets, out,
):  # fmt: skip
    """Numbers of the matching clauses, event by event from `first_event` on; returns the first event that may no longer fit `out`."""
    event = np.empty(edges.shape[0], np.int32)
    for number in range(first_event, len(offsets) - 1):
        filled = out_offsets[number]
        if filled + clauses + 1 > len(out):
            return number
        event[:] = FREE_LOW
        for cell in range(offsets[number], offsets[number + 1]):
            event[column[cell]] = code[cell]
        out_offsets[number + 1] = _match_event(
            event,
            edges,
            bucket,
            group,
            rate,
            table,
            buckets,
            groups,
            found_bits,
            lines,
            numbers,
            places,
            candidates,
            lanes,
            out,
            filled,
        )
    return len(offsets) - 1
