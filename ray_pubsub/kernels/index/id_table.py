"""A hash table from int64 ids to slots, without a Python object per id: one array of pairs, linear probing, no tombstones.

The table is one int64 array [capacity, 2]: key, slot; slot -1 is an empty place. It is never full. All but one of these kernels hold the
GIL, so that a look-up in one thread never sees a half-finished insertion of another.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, holding_gil, inlined

__all__ = ["find", "insert", "insert_many", "living_slots", "refill", "take_out", "take_out_many"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
EMPTY = -1


@inlined
def home(key, capacity):
    """Returns where a key belongs: the upper half of a product spreads neighbours over the table, whatever its capacity."""
    mixed = np.uint64(key) * GOLDEN
    mixed ^= mixed >> np.uint64(32)
    mixed *= GOLDEN
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(capacity)) >> np.uint64(32))


@inlined
def place_of(table, key):
    """The key's place, or the empty one where it would go."""
    place = home(key, len(table))
    while table[place, 1] != EMPTY and table[place, 0] != key:
        place += 1
        if place == len(table):
            place = 0
    return place


@holding_gil
def find(table, key):
    """The key's slot, -1 if it has none."""
    return table[place_of(table, key), 1]


@holding_gil
def insert(table, key, slot):
    """Gives a key its slot; the slot it had, or -1."""
    place = place_of(table, key)
    old = table[place, 1]
    table[place, 0] = key
    table[place, 1] = slot
    return old


@holding_gil
def insert_many(table, keys, slots, replaced):
    """Gives keys their slots; of equal keys the last wins. Returns how many slots lost their key, listed in `replaced`."""
    count = 0
    for number in range(len(keys)):
        place = place_of(table, keys[number])
        if table[place, 1] != EMPTY:
            replaced[count] = table[place, 1]
            count += 1
        table[place, 0] = keys[number]
        table[place, 1] = slots[number]
    return count


@compiled
def refill(table, larger):
    """Copies all pairs to an empty table, which nobody else knows yet: so this one kernel lets go of the GIL."""
    for place in range(len(table)):
        if table[place, 1] != EMPTY:
            target = place_of(larger, table[place, 0])
            larger[target, 0] = table[place, 0]
            larger[target, 1] = table[place, 1]


@holding_gil
def take_out(table, key):
    """Removes a key and closes the gap: every later pair of the run that may move nearer to its home does. Returns its slot or -1."""
    capacity = len(table)
    gap = place_of(table, key)
    slot = table[gap, 1]
    if slot == EMPTY:
        return slot
    place = gap
    while True:
        place += 1
        if place == capacity:
            place = 0
        if table[place, 1] == EMPTY:
            break
        wanted = home(table[place, 0], capacity)
        # May stay if its home lies after the gap (cyclically).
        stays = (gap < wanted <= place) if gap < place else (wanted > gap or wanted <= place)
        if not stays:
            table[gap, 0], table[gap, 1] = table[place, 0], table[place, 1]
            gap = place
    table[gap, 1] = EMPTY
    return slot


@holding_gil
def take_out_many(table, keys, slots):
    """Removes keys; slots[i] = the slot that key i had, or -1."""
    for number in range(len(keys)):
        slots[number] = take_out(table, keys[number])


@holding_gil
def living_slots(table, out):
    """All slots in the table, in no order; returns how many."""
    count = 0
    for place in range(len(table)):
        if table[place, 1] != EMPTY:
            out[count] = table[place, 1]
            count += 1
    return count
