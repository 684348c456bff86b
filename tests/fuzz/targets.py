"""What is fuzzed, and what must hold: only errors of our own tree come out, and where there are two ways to an answer, both give it."""

from __future__ import annotations

import datetime
import json
import random
import struct
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
import xxhash

from actors.mailboxes.deduplication import chunk_of
from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.event_content import pack_event, unpack_event
from actors.mailboxes.publish_window import PublicationEntry, Undelivered, pack_events, unpack_events
from actors.mailboxes.store.delivery_chunk import Chunk
from actors.storage.database import DamagedContentError, content_of
from actors.transport.frames import ProtocolError, decoded
from ray_pubsub import MatchIndex, PriorityRules
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.index.storage.index_file import INDEX
from ray_pubsub.index.storage.sealed_file import CHECKSUM, PREFIX
from ray_pubsub.language.parser import parse
from ray_pubsub.priority.rule_files import dump, unpickled
from tests.fuzz.http_requests import strange_requests
from tests.fuzz.imports import changed_rules
from tests.fuzz.inputs import changed_bytes, event, json_line, repacked, strange_field, table, text
from tests.unit.transport.test_hostile_frames import SAMPLES, tampered

__all__ = ["TARGETS", "Target"]

EXPRESSIONS = [
    "x = 1",
    "y > 2 and not flag",
    "a.b between 0 and 5 or s like 'a%'",
    "t is null",
    "s in ('a', '')",
    "`q r` != 3",
    "list_contains(x, 1) or lower(s) = 'a'",
    "x + y > 3 or length(s) = 1 or 'a' = any(t)",
]


class Target(NamedTuple):
    """`run` gets a seed and makes `batch` inputs of it. It raises what must not come out, and AssertionError for a wrong answer."""

    name: str
    batch: int
    run: Callable[[int], None]
    share: float
    """Of all inputs."""


def texts(seed: int) -> None:
    """Many at once by kernels, one by one by the parser: both accept the same, and match the same events."""
    chance = random.Random(f"texts {seed}")
    given = [text(chance) for _ in range(TEXTS)]
    accepted = []
    for place, each in enumerate(given):
        with suppress(RayPubSubError):
            parse(each)
            accepted.append(place)
    together, alone = MatchIndex(), MatchIndex(engine="scan")
    report = together.add_many(list(range(len(given))), given)
    refused = {rejection.position for rejection in report.rejections}
    for place in accepted:
        with suppress(RayPubSubError):  # what is parsed may still be too large
            alone.add(place, given[place])
    assert set(alone) == set(range(len(given))) - refused, [given[int(place)] for place in set(alone) ^ set(together)]
    events = [_plain(chance) for _ in range(4)]
    found, expected = together.match_many(events), alone.match_many(events)
    for row in range(len(events)):
        assert set(found[row]) == set(expected[row]), (
            events[row],
            [given[int(place)] for place in set(found[row]) ^ set(expected[row])],
        )


def _plain(chance: random.Random) -> dict[str, Any]:
    values = [
        None,
        True,
        False,
        0,
        1,
        -1,
        5.5,
        "a",
        "",
        "it's",
        8,
        -5,
        1e300,
        "10.1.2.3",
        datetime.datetime(2024, 5, 1, 10),
    ]
    lists = [[], [1, 2, None], ["a", "b", 1], [{"x": 2}, {"s": "a"}, 5], [[1], ["a"]], None, 3]
    names = ("x", "y", "a.b", "s", "t", "flag", "q r", "l", "o")
    return {name: chance.choice(lists if name in "lo" else values) for name in names if chance.random() < 0.7}


def _filled(engine: str) -> MatchIndex:
    index = MatchIndex(engine=engine)
    index.add_many(range(len(EXPRESSIONS)), EXPRESSIONS)
    return index


FAST, PLAIN = _filled("auto"), _filled("scan")


def dicts(seed: int) -> None:
    """Bad events are reported, by the same positions in every engine, and the others matched."""
    chance = random.Random(f"dicts {seed}")
    events = [event(chance) for _ in range(DICTS)]
    found, expected = FAST.match_many(events), PLAIN.match_many(events)
    assert [error.position for error in found.errors] == [error.position for error in expected.errors]
    for row in range(len(events)):
        assert set(found[row]) == set(expected[row]), events[row]
    for each in events:
        if isinstance(each, dict):
            with suppress(RayPubSubError):
                unpack_event(pack_event(each))


def lines(seed: int) -> None:
    """What Python's json module reads is matched as it reads it, and what it refuses is a bad event."""
    chance = random.Random(f"lines {seed}")
    given = [json_line(chance) for _ in range(LINES)]
    found = FAST.match_json(given)
    bad = {error.position for error in found.errors}
    for row, line in enumerate(given):
        try:
            document = json.loads(line.removeprefix(BOM_UTF8).decode())
        except (ValueError, RecursionError):
            assert row in bad, line
            continue
        try:
            expected = set(PLAIN.match(document)) if isinstance(document, dict) else None
        except RayPubSubError:
            expected = None
        if expected is None:
            assert row in bad, line
        elif row not in bad:
            assert set(found[row]) == expected, line
        else:
            assert _has_odd_strings(line), line


def _has_odd_strings(line: bytes) -> bool:
    return b"\\u" in line or b"\x00" in line


def tables(seed: int) -> None:
    chance = random.Random(f"tables {seed}")
    for _ in range(TABLES):
        given = table(chance)
        name = chance.choice([None, None, *given.column_names, "missing"])
        with suppress(RayPubSubError):
            found = FAST.match_many(given, event_id=name)
            assert sorted(found.pairs()) == sorted(PLAIN.match_many(given, event_id=name).pairs())


def _resealed(chance: random.Random, content: bytes) -> bytes:
    """A saved file that was changed by somebody who knows its checksums."""
    magic, version, length = PREFIX.unpack(content[: PREFIX.size])
    header = msgpack.unpackb(content[PREFIX.size : PREFIX.size + length], strict_map_key=False)
    rest = content[PREFIX.size + length + CHECKSUM.size :]
    if chance.random() < 0.4:
        header = strange_field(chance, header)
    else:
        rest = changed_bytes(chance, rest)
    if isinstance(header, dict):
        header = _with_fitting_sums(header, rest)
    packed = msgpack.packb(header)
    start = PREFIX.pack(magic, version, len(packed)) + packed
    return start + CHECKSUM.pack(xxhash.xxh3_64_intdigest(start)) + rest


def _with_fitting_sums(header: dict[str, Any], rest: bytes) -> dict[str, Any]:
    with suppress(
        TypeError, ValueError, KeyError, struct.error, OverflowError, AttributeError, MemoryError, SystemError
    ):
        place, sections, arrays = 0, [], []
        for length, _ in header["sections"]:
            sections.append([length, xxhash.xxh3_64_intdigest(rest[place : place + length])])
            place += length
        for kind, shape, _ in header.get("arrays", ()):
            length = int(np.prod(shape)) * np.dtype(kind).itemsize
            arrays.append([kind, shape, xxhash.xxh3_64_intdigest(rest[place : place + length])])
            place += length
        return {**header, "sections": sections, **({"arrays": arrays} if arrays else {})}
    return header


def _saved() -> Iterator[bytes]:
    for engine in ("auto", "scan", "rein", "opindex"):
        index = MatchIndex(engine=engine)
        index.add_many(["a", "b", 3], ["x = 1 or y > 2", "s like 'a%' and x in (1, 2, 5)", "t is not null"])
        index.add_predicates(
            pa.table({"id": [7, 7, 8], "attribute": ["x", "y", "x"], "low": [1, 2, 3], "high": [4, 5, None]})
        )
        _, (content,) = index.__reduce_ex__(4)
        yield bytes(content)


def _saved_rules() -> bytes:
    rules = PriorityRules(["low", "high"])
    rules.add_many(["r1", 2], ["high", "low"], ["x > 5 and s in ('a', 'b')", "y like 'z%'"])
    return dump(rules)


SAVED = list(_saved())
RULES = _saved_rules()
assert all(content.startswith(INDEX.magic) for content in SAVED)


def files(seed: int) -> None:
    """A changed file is refused, or is another valid index, which can be used."""
    chance = random.Random(f"files {seed}")
    unpickle = MatchIndex().__reduce_ex__(4)[0]
    for _ in range(FILES):
        content = chance.choice(SAVED)
        given = _resealed(chance, content) if chance.random() < 0.8 else changed_bytes(chance, content)
        with suppress(RayPubSubError):
            index = unpickle(given)
            index.match_many([{"x": 1, "y": 3, "s": "ab"}, {"t": 5}])
            [index.expression(identity) for identity in index]
        given = _resealed(chance, RULES) if chance.random() < 0.8 else changed_bytes(chance, RULES)
        with suppress(RayPubSubError):
            unpickled(given, {}).priorities([{"x": 9, "s": "a"}, {"y": "zz"}])


def _chunk() -> bytes:
    rows = np.array([0, 0, 1], np.int64)
    batch = DeliveryBatch(
        rows, ["a", "b", 7], np.array([1, 2, 1]), rows * 0, ["e", 5], [{"x": 1}, {"y": [1, "b"]}]
    ).checked(1)
    chunk, _ = chunk_of(batch, np.arange(3), 5, 1000.0)
    return chunk.pack()


CONTENT = pack_event({"x": 1, "text": "abc", "nested": {"a": [1, 2.5, None]}})
CHUNK = _chunk()
WINDOW = pack_events([("k", None), (5, frozenset({1, 2})), (b"b", None)])
PUBLICATION = PublicationEntry("key", Undelivered(np.array([3], np.int32), np.array([1, 2], np.int64))).pack()


def contents(seed: int) -> None:
    """Rows of the mailboxes' store, and events as they are stored."""
    chance = random.Random(f"contents {seed}")
    for _ in range(CONTENTS):
        with suppress(RayPubSubError):
            unpack_event(repacked(chance, CONTENT))
        for sample, unpack in ((CHUNK, _use_chunk), (WINDOW, unpack_events), (PUBLICATION, PublicationEntry.unpack)):
            with suppress(DamagedContentError), content_of("row"):
                unpack(repacked(chance, sample))


def _use_chunk(packed: bytes) -> None:
    chunk = Chunk.unpack(packed)
    chunk.sizes()
    chunk.settle(np.arange(min(1, len(chunk))))


def frames(seed: int) -> None:
    """A changed message of a socket is refused, or is another valid message, which can be used."""
    chance = random.Random(f"frames {seed}")
    for _ in range(FRAMES):
        _, read, use, frame = chance.choice(LIGHT)
        try:
            found = decoded(read, tampered(frame, chance))
        except ProtocolError:
            continue
        use(found)


def rules(seed: int) -> None:
    changed_rules(seed, RULES_OF_EACH)


def requests(seed: int) -> None:
    strange_requests(seed, REQUESTS)


TEXTS, DICTS, LINES, TABLES, FILES, CONTENTS, FRAMES, RULES_OF_EACH, REQUESTS = 200, 200, 200, 20, 10, 25, 100, 20, 100
LIGHT = [sample for sample in SAMPLES if not any(word in sample[0] for word in ("many", "wide", "scattered"))]
TARGETS = [
    Target("texts", TEXTS, texts, 0.32),
    Target("dicts", DICTS, dicts, 0.3),
    Target("JSON lines", LINES, lines, 0.33),
    Target("Arrow tables", TABLES, tables, 0.02),
    Target("saved files", 2 * FILES, files, 0.002),
    Target("stored rows", 4 * CONTENTS, contents, 0.03),
    Target("frames", FRAMES, frames, 0.01),
    Target("HTTP requests", REQUESTS, requests, 0.01),
    Target("imported rules", 4 * RULES_OF_EACH, rules, 0.01),
]
