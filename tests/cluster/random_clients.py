"""Clients of a server that do random things, each among ids and attributes of its own, so that what it must see is known exactly, whatever
the others do meanwhile. Also run as a program of its own."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import ray_pubsub

WORDS = ("ab", "abc", "b", "it's", "é", "")
LEVELS = ("low", "normal", "high", "critical")


@dataclass(slots=True)
class Client:
    """`name` is its subscriber's name and the beginning of its attributes, of its ids of str and of its events' ids; its ids of int are
    those from `first` to `first + 99`."""

    name: str
    first: int
    seed: int
    texts: dict[Any, str] = field(default_factory=dict)
    tables: dict[Any, list[dict[str, Any]]] = field(default_factory=dict)
    rules: dict[Any, tuple[str, str]] = field(default_factory=dict)
    delivered: list[tuple[Any, Any, str]] = field(default_factory=list)
    """Event, subscription and priority of what must be in its mailbox, of its own events and subscriptions."""
    published: int = 0

    def run(self, server: Any, steps: int) -> None:
        """Every publication is compared with an index of what was acknowledged before it."""
        chance = random.Random(self.seed)
        index = ray_pubsub.MatchIndex(engine="scan")
        rules = ray_pubsub.PriorityRules(levels=list(LEVELS))
        actions: list[Callable[..., None]] = [
            self._subscribe, self._subscribe, self._unsubscribe, self._texts, self._intervals, self._prioritize,
        ]  # fmt: skip
        for _ in range(steps):
            chance.choice(actions)(server, index, rules, chance)
            self._publish(server, index, rules, chance)

    def own(self, ids: Any) -> list[Any]:
        """Those of these ids that are its own; another's subscription to the absence of something matches too."""
        mine = range(self.first, self.first + 100)
        return sorted((i for i in ids if (i in mine if isinstance(i, int) else i.startswith(self.name))), key=str)

    def _subscribe(self, server: Any, index: Any, rules: Any, chance: random.Random) -> None:
        identity, text = self._id(chance), expression(chance, self.name)
        assert server.subscribe(self.name, text, id=identity) == identity
        index.add(identity, text)
        self._keep(identity, text=text)

    def _unsubscribe(self, server: Any, index: Any, rules: Any, chance: random.Random) -> None:
        ids = [self._id(chance) for _ in range(chance.choice((1, 1, 5)))]
        if len(ids) == 1:
            assert server.unsubscribe(ids[0]) == index.remove(ids[0])
        else:
            assert server.unsubscribe_many(ids) == index.remove_many(ids)
        for identity in ids:
            self._keep(identity)

    def _texts(self, server: Any, index: Any, rules: Any, chance: random.Random) -> None:
        """In bulk, with a bad one now and then, and with an id twice, of which the last counts."""
        ids = [self._id(chance, str) for _ in range(chance.randint(1, 8))]
        texts = [expression(chance, self.name) for _ in ids]
        if chance.random() < 0.3:
            texts[0] = "bad <"
        report = server.subscribe_many(pa.table({"id": ids, "expression": texts}), subscriber=self.name)
        expected = index.add_many(ids, texts)
        assert [(each.position, each.id) for each in report.rejections] == [
            (each.position, each.id) for each in expected.rejections
        ]
        for identity, text in zip(ids, texts, strict=True):
            if text != "bad <":
                self._keep(identity, text=text)

    def _intervals(self, server: Any, index: Any, rules: Any, chance: random.Random) -> None:
        kind = chance.choice((str, int))
        rows = []
        for identity in {self._id(chance, kind) for _ in range(chance.randint(1, 6))}:
            for attribute in chance.sample("pqr", chance.randint(1, 2)):
                low = chance.choice((None, chance.randint(-3, 3)))
                high = chance.choice((None, chance.randint(-3, 3)))
                closed = {"low_closed": chance.random() < 0.5, "high_closed": chance.random() < 0.5}
                rows.append(
                    {"id": identity, "attribute": f"{self.name}.{attribute}", "low": low, "high": high, **closed}
                )
        table = interval_table(rows)
        server.subscribe_many(table, subscriber=self.name)
        index.add_predicates(table)
        for identity in {row["id"] for row in rows}:
            self._keep(identity, rows=[row for row in rows if row["id"] == identity])

    def _prioritize(self, server: Any, index: Any, rules: Any, chance: random.Random) -> None:
        identity = f"{self.name}-{chance.randint(0, 4)}"
        if chance.random() < 0.3:
            assert server.unprioritize(identity) == rules.remove(identity)
            self.rules.pop(identity, None)
            return
        level, text = chance.choice(LEVELS), f"{self.name}.p >= {chance.randint(-4, 4)}"
        server.prioritize(identity, level, text)
        rules.add(identity, level, text)
        self.rules[identity] = (level, text)

    def _publish(self, server: Any, index: Any, rules: Any, chance: random.Random) -> None:
        events = [event(chance, self.name) for _ in range(chance.choice((1, 1, 3, 100)))]
        for number, each in enumerate(events):
            each["event"] = f"{self.name}-{self.published + number}"
        self.published += len(events)
        deliver = chance.random() < 0.7
        result = server.publish(events, event_id="event", deliver=deliver)
        expected, levels = index.match_many(events), rules.priorities(events)
        assert result.errors == []
        assert list(result.priorities) == levels
        for place, each in enumerate(events):
            found = self.own(result[place])
            assert found == sorted(expected[place], key=str), (each, found, expected[place])
            if deliver:
                self.delivered += [(each["event"], identity, levels[place]) for identity in found]

    def _id(self, chance: random.Random, kind: type | None = None) -> Any:
        number = chance.randrange(30)
        return f"{self.name}-{number}" if (kind or chance.choice((str, int))) is str else self.first + number

    def _keep(self, identity: Any, text: str | None = None, rows: list[dict[str, Any]] | None = None) -> None:
        self.texts.pop(identity, None)
        self.tables.pop(identity, None)
        if text is not None:
            self.texts[identity] = text
        if rows is not None:
            self.tables[identity] = rows


def interval_table(rows: list[dict[str, Any]]) -> pa.Table:
    kind = pa.string() if isinstance(rows[0]["id"], str) else pa.int64()
    fields = [("id", kind), ("attribute", pa.string()), ("low", pa.int64()), ("high", pa.int64())]
    return pa.Table.from_pylist(rows, pa.schema([*fields, ("low_closed", pa.bool_()), ("high_closed", pa.bool_())]))


def expression(chance: random.Random, name: str, depth: int = 2) -> str:
    """Of every kind, over the client's attributes; some match what is absent, and so the events of all."""
    if depth and chance.random() < 0.6:
        parts = [expression(chance, name, depth - 1) for _ in range(2)]
        return f"({parts[0]} {chance.choice(('and', 'or'))} {'not ' if chance.random() < 0.2 else ''}{parts[1]})"
    number, word = f"{name}.{chance.choice('pqr')}", f"{name}.{chance.choice('st')}"
    constant, text = chance.randint(-3, 3), chance.choice(WORDS).replace("'", "''")
    return chance.choice(
        (
            f"{number} {chance.choice(('<', '<=', '=', '!=', '>', '>='))} {constant}",
            f"{number} between {constant} and {constant + 2}",
            f"{number} not in ({constant}, {constant + 1}.5)",
            f"{word} = '{text}'",
            f"{word} like '{text[:1]}%'",
            f"{word} regexp 'b$'",
            f"{chance.choice((number, word))} is {chance.choice(('null', 'not null'))}",
        )
    )


def event(chance: random.Random, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {f"{name}.{each}": chance.choice((chance.randint(-4, 4), 0.5, "ab")) for each in "pqr"}
    found.update({f"{name}.{each}": chance.choice(WORDS) for each in "st"})
    return {attribute: value for attribute, value in found.items() if chance.random() < 0.7}


def run_in_a_process(server: str, name: str, first: int, seed: int, steps: int) -> dict[str, Any]:
    """What the client knows at the end, as JSON can say it."""
    client = Client(name, first, seed)
    with ray_pubsub.connect(server) as connected:
        client.run(connected, steps)
    return {
        "texts": list(client.texts.items()),
        "tables": list(client.tables.items()),
        "rules": list(client.rules.items()),
        "delivered": client.delivered,
    }


if __name__ == "__main__":
    import json

    print(json.dumps(run_in_a_process(*json.loads(sys.argv[1]))))
