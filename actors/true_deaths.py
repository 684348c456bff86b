"""Which deaths of a shard are deaths of a process that was asked.

While a process is being started again, or its node is lost, every call fails as if it had just died. Were each of these counted, a batch
would be suspected of killing shards that it has never reached. So, once a shard has died, it is asked again only when it is known to be
there, and its death counts once for each instance that was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.gathering import Ask, Question
from actors.messages import ShardReply
from ray_pubsub.errors import UnavailableError

__all__ = ["Alive", "with_true_deaths"]

Alive = Callable[[int, float], int | None]
"""The epoch of the shard's instance if it answers, within so many seconds, and has loaded; else None."""


def with_true_deaths(ask: Ask, alive: Alive) -> Ask:
    """`ask`, for one batch: of those who died, only true deaths are told as such."""
    died: dict[int, int | None] = {}
    """Shards that died, with the last instance whose death was told."""

    def asked(questions: Sequence[Question], timeout: float) -> list[ShardReply | Exception]:
        epochs = {question.shard: alive(question.shard, timeout) for question in questions if question.shard in died}
        there = [question for question in questions if epochs.get(question.shard, 0) is not None]
        replies = iter(ask(there, timeout)) if there else iter(())
        found: list[ShardReply | Exception] = []
        for question in questions:
            shard = question.shard
            epoch = epochs.get(shard, 0)
            if epoch is None:
                found.append(UnavailableError(f"shard {shard}", "has died, and is not back yet"))
                continue
            reply = next(replies)
            if isinstance(reply, UnavailableError) and reply.died:
                if died.get(shard) == epoch:
                    reply = UnavailableError(reply.who, reply.reason)
                died[shard] = epoch
            found.append(reply)
        return found

    return asked
