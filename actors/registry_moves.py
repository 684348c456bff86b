"""Subscriptions that go to another shard, in a transaction of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from actors.interval_blocks import Block
from actors.registry_arguments import check_shard, chunks, places
from actors.registry_changes import Answer, MoveSubscriptions
from ray_pubsub.errors import SettingError

if TYPE_CHECKING:
    from actors.registry_transaction import Transaction

__all__ = ["move"]


def move(transaction: Transaction, change: MoveSubscriptions) -> Answer:
    """Those of the subscriptions that are on the source."""
    check_shard(change.source)
    check_shard(change.target)
    numbers = np.unique(np.asarray(change.numbers))
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise SettingError("numbers", "must be the numbers of subscriptions")
    connection, moved = transaction.connection, []
    for chunk in chunks(numbers.tolist()):
        asked = f"SELECT number FROM subscriptions WHERE shard = ? AND number IN ({places(chunk)})"
        moved += [number for (number,) in connection.execute(asked, (change.source, *chunk))]
    rows = [(change.target, number) for number in moved]
    connection.executemany("UPDATE subscriptions SET shard = ? WHERE number = ?", rows)
    for key, block in transaction.known.blocks.items():
        chosen = np.isin(block.numbers, numbers) & (block.shards == change.source)
        if chosen.any():
            moved += _move_in_block(transaction, key, block, chosen, change.target)
    if moved:
        transaction.log(moved, [change.source] * len(moved), change.target)
    return Answer(transaction.now(), moved=len(moved))


def _move_in_block(
    transaction: Transaction, key: int, block: Block, chosen: NDArray[np.bool_], target: int
) -> list[int]:
    span = (int(block.numbers[0]), int(block.numbers[-1]))
    dead = transaction.connection.execute("SELECT number FROM dead WHERE number BETWEEN ? AND ?", span).fetchall()
    chosen &= ~np.isin(block.numbers, [number for (number,) in dead])
    before, shards = block.shards, block.shards.copy()
    shards[chosen] = target
    # The transaction itself looks at the block again if one of its subscriptions moves twice or goes.
    block.shards = shards
    transaction.undo.append(lambda: setattr(block, "shards", before))
    transaction.connection.execute("UPDATE blocks SET shards = ? WHERE block = ?", (block.packed_shards(), key))
    numbers: list[int] = block.numbers[chosen].tolist()
    return numbers
