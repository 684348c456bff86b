"""Renumbers slots without gaps, and adjusts the sources of the subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

from ray_pubsub.engines.contract import Engine, Source
from ray_pubsub.index.bulk.indexed_table import IndexedTable
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.catalogue import Catalogue
from ray_pubsub.index.storage.saved_texts import SavedTexts
from ray_pubsub.language.tree import Tree

__all__ = ["compacted"]


def compacted(catalogue: Catalogue, engine: Engine) -> tuple[Catalogue, Engine]:
    """Returns the same subscriptions in slots without gaps. Readers of the old catalogue and engine may go on."""
    stores: dict[int, Source] = {}
    fresh, slots = catalogue.compacted(lambda source, slot: _moved_source(source, slot, stores))
    compact = engine.compacted(slots, fresh.source)
    for source in stores.values():
        if isinstance(source, IndexedTable):
            source.store = compact
    return fresh, compact


def _moved_source(source: Source, slot: int, known: dict[int, Source]) -> Source:
    """Returns a source that answers for a new slot what `source` answers for `slot`."""
    if isinstance(source, IndexedTable):
        return known.setdefault(id(source), IndexedTable(source.store))
    if isinstance(source, SavedTexts):
        return source.alone(slot)
    return Moved(source, slot) if isinstance(source, PredicateTable) else source


@dataclass(frozen=True, slots=True)
class Moved:
    """The source of a subscription whose table knows it by another slot."""

    source: Source
    slot: int

    def tree_at(self, slot: int) -> Tree:
        return self.source.tree_at(self.slot)

    def text_at(self, slot: int) -> str:
        return self.source.text_at(self.slot)
