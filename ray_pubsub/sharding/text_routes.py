"""Finds the routes of many texts at once: kernels parse them as an index does, and no tree is built. The routes are those of
PivotChooser.route, with the uses of attributes in these texts included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ray_pubsub.columns.texts.known_patterns import KnownPatterns
from ray_pubsub.columns.texts.parsed_texts import ParsedTexts
from ray_pubsub.columns.texts.text_compiler import portions
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.sharding.text_routes import UNIVERSAL as NO_LENGTH
from ray_pubsub.kernels.sharding.text_routes import Attributes, routes_of_programs
from ray_pubsub.kernels.texts import layout
from ray_pubsub.language.terms import COMPUTED, Term, attributes_of_term, flag_subjects, needed_by_name, needed_by_term
from ray_pubsub.settings import Limits
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotChooser, Route

__all__ = ["TextsToRoute"]


class TextsToRoute:
    """Texts, parsed on construction, which needs no lock; only finding the routes needs the chooser's lock."""

    def __init__(self, texts: Sequence[str], limits: Limits, *, ignore_case: bool = False) -> None:
        self._parsed = [
            ParsedTexts(texts[start:stop], limits, KnownPatterns(Vocabulary()), ignore_case=ignore_case, lowering=False)
            for start, stop in portions(texts)
        ]

    def routes(self, chooser: PivotChooser) -> list[Route | None]:
        """Returns the route of each text; None for one that language/parser.py must parse, because it is wrong or unusual."""
        return [route for parsed in self._parsed for route in _routes(parsed, chooser)]


UNIVERSAL_RANK = -1
"""Of a computed attribute that may have a value in any event."""


def _needed(name: str, terms: dict[str, Term]) -> frozenset[str]:
    """Returns the attributes that an event must have for the name to have a value."""
    term = terms.get(name)
    if term is None:
        return frozenset([name])
    subjects = None if name.startswith(f"{COMPUTED}(") else flag_subjects(term)
    return needed_by_term(term) if subjects is None else frozenset().union(*map(needed_by_name, subjects))


def _routes(parsed: ParsedTexts, chooser: PivotChooser) -> list[Route | None]:
    needed = [_needed(name, parsed.terms) for name in parsed.attributes]
    owner = np.repeat(np.arange(len(parsed.read)), np.diff(parsed.columns.leaf_offsets))
    counted = (parsed.leaves["operator"] != layout.CONSTANT) & parsed.read[owner]
    uses = np.bincount(parsed.leaves["attribute"][counted], minlength=len(needed))
    for name, count in zip(parsed.attributes, uses.tolist(), strict=True):
        if count:
            used = attributes_of_term(parsed.terms[name]) if name in parsed.terms else (name,)
            chooser.uses.update(dict.fromkeys(used, count))
    ranked = sorted({name for names in needed for name in names}, key=chooser.rarity)
    ranks_of = {name: number for number, name in enumerate(ranked)}
    rank = np.array([min(map(ranks_of.__getitem__, names), default=UNIVERSAL_RANK) for names in needed], np.int32)
    frequency = np.array([chooser.rarity(name)[0] for name in ranked], np.float64)
    longest = int(np.diff(parsed.columns.program_offsets).max(initial=0))
    offsets, lengths, ranks = routes_of_programs(parsed.columns, parsed.read, Attributes(rank, frequency), longest)
    raw, size = ranks.tobytes(), ranks.itemsize
    known: dict[bytes, Route] = {}
    found: list[Route | None] = []
    for read, start, length in zip(parsed.read.tolist(), offsets.tolist(), lengths.tolist(), strict=True):
        if not read or length == NO_LENGTH:
            found.append(UNIVERSAL if read else None)
            continue
        key = raw[start * size : (start + length) * size]
        route = known.get(key)
        if route is None:
            route = known[key] = Route(tuple(ranked[place] for place in ranks[start : start + length].tolist()))
        found.append(route)
    return found
