"""Changes the rule book, the instances and the indexes together, so that a reader sees every change wholly or not at all.

A change takes four steps:

1. New rules are added to filters and indexes, and the sure cells of old rules are removed (instantiation/instances.py).
2. A snapshot is published that sees the new rules and no longer the old ones.
3. The old rules leave the filters, and the sure cells of the new ones are added.
4. Another snapshot begins a new epoch, because a signature that was cached since step 2 may still show the old rules.

So at any moment the filters hold at least the rules that the snapshot sees, and the sure cells at most those. A reader that finds another
snapshot after its lookup than before repeats the lookup.
"""

from __future__ import annotations

from collections.abc import Sequence

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.starting_engine import FEW
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.priority.compilation import RuleCompiler
from ray_pubsub.priority.confirmation import RuleIndexes, Snapshot
from ray_pubsub.priority.determination import Determination
from ray_pubsub.priority.discretizer import Discretizer
from ray_pubsub.priority.instantiation.boxes import Refusal
from ray_pubsub.priority.instantiation.instances import RuleInstances
from ray_pubsub.priority.rule_book import RuleBook
from ray_pubsub.settings import Limits

__all__ = ["RuleKeeper"]

OFTEN = 4096
"""Bins are chosen again when a quarter more rules were added than there were then; above this number of rules, when they have doubled."""
UNSEEN = 1024
"""How many rules that no snapshot sees any more the indexes may still hold, in addition to a quarter of all rules."""


class RuleKeeper:
    """One writer at a time calls it; readers take `snapshot`, `indexes` and `purged`."""

    def __init__(
        self,
        limits: Limits,
        levels: int,
        *,
        confirm: bool,
        discretizers: dict[str, Discretizer],
        signatures: int,
        vectors: int,
        rate: float,
    ) -> None:
        self.limits = limits
        self.levels = levels
        self.confirm = confirm
        self._discretizers = discretizers
        self._signatures, self._vectors = signatures, vectors
        self._rate = rate
        self.book = RuleBook()
        self.indexes = RuleIndexes(limits, levels)
        self.exact: dict[int, str] = {}
        """The rules that are matched exactly, and why."""
        self.purged = 0
        """The indexes may lack rules that readers of an earlier version than this one see."""
        self.starting = False
        """Whether all rules are matched exactly because kernels are still being compiled: their indexes need none."""
        self.rebuilds = 0
        self._built = self._added = self._removed = 0
        self._unseen: list[int] = []
        self._compiler = RuleCompiler(limits)
        self.instances = self._no_instances()
        determination = Determination(self.instances)
        self.attributes = AttributeTree()
        """What the rules test, and all that has to be read of events."""
        self._learned: dict[int, tuple[AttributeTree, int]] = {}
        """The trees of the compiler and the indexes, and how many attributes were taken from each."""
        self.snapshot = Snapshot(1, 0, self.book.died, self.book.level_of, determination, 0, 0)
        self._oracle: tuple[int, RuleIndexes] | None = None

    def change(self, added: Sequence[int], removed: Sequence[int]) -> None:
        """Makes rules that were just added to the book, and removed from it, visible to readers."""
        fresh, gone = self.book.instantiable(added), self.book.instantiable(removed)
        self._added += len(fresh)
        self._removed += len(gone)
        if self._is_time(fresh):
            self._rebuild(fresh, removed)
        else:
            determination = self._extend(fresh)
            instantiated = [number for number in gone if self.exact.pop(number, None) is None]
            if instantiated:
                self.instances.unsettle(instantiated, self.book.level_of)
            self._publish(removed, determination)
            self.instances.settle(self.book.level_of)
            if instantiated:
                self.instances.remove(instantiated, self.book.level_of)
                self._publish([], determination)
        for number in removed:
            self.book.sources[number] = None
        self._unseen += gone
        if len(self._unseen) > UNSEEN + len(self.book.number_of) // 4:
            self._purge(self._unseen, self._unseen)
            self._unseen = []

    def rebuild(self) -> None:
        """Chooses new bins and instantiates every rule in them."""
        self._rebuild([], [])

    def all_indexes(self) -> RuleIndexes:
        """Returns indexes with every rule above the default level; they are built for this call if none are kept for confirming."""
        if self.confirm:
            return self.indexes
        if self._oracle is None or self._oracle[0] != self.snapshot.version:
            indexes = RuleIndexes(self.limits, self.levels)
            numbers = self.book.instantiable(list(self.book.number_of.values()))
            indexes.add_to_levels(numbers, self.book.level_of, [self.book.source(number) for number in numbers])
            self._oracle = (self.snapshot.version, indexes)
        return self._oracle[1]

    def _no_instances(self) -> RuleInstances:
        return RuleInstances(
            self._compiler.vocabulary,
            self._discretizers,
            levels=self.levels,
            signatures=self._signatures,
            vectors=self._vectors,
            rate=self._rate,
            sure=self.confirm,
        )

    @property
    def has_started(self) -> bool:
        """Returns whether rules that were added while kernels were compiled can be instantiated now."""
        return self.starting and are_ready()

    def _is_time(self, fresh: list[int]) -> bool:
        if self.starting:
            return not self._may_start(fresh)
        enough = max(1, self._built // 4 if self._built < OFTEN else self._built)
        return self._added >= enough or self._removed > max(UNSEEN, self._built // 2)  # which also frees memory

    def _extend(self, fresh: list[int]) -> Determination:
        """Instantiates rules in the current bins; those that cannot be instantiated are added to the index of exactly matched rules."""
        if not fresh:
            return self.snapshot.determination
        table, refused = self._compiled(fresh)
        refused.update(self.instances.add(table, self.book.level_of))
        self._index(fresh, refused)
        self.exact.update(refused)
        old = self.snapshot.determination.discretization
        is_same = len(old.columns) == len(self.instances.layout.columns)  # columns are only ever added
        return Determination(self.instances, old if is_same else None)

    def _rebuild(self, fresh: list[int], removed: Sequence[int]) -> None:
        """Builds all instances beside the old ones, which readers use until the new snapshot is published."""
        numbers = sorted(self.book.instantiable(list(self.book.number_of.values())))
        self._compiler = RuleCompiler(self.limits)
        self.instances = self._no_instances()
        self.starting = bool(numbers) and self._may_start(numbers)
        table, refused = self._compiled(numbers)
        refused.update(self.instances.add(table, self.book.level_of))
        self.instances.settle(self.book.level_of)  # nobody reads these instances yet
        self._index(fresh, refused)
        new = set(fresh)
        old, alive = self.exact, set(numbers)
        to_exact = [number for number in refused if number not in old and number not in new]
        to_levels = [number for number in old if number in alive and number not in refused]
        self.indexes.add_exact(to_exact, [self.book.source(number) for number in to_exact])
        if self.confirm:
            sources = [self.book.source(number) for number in to_levels]
            self.indexes.add_to_levels(to_levels, self.book.level_of, sources)
        self.exact = refused
        self._publish(removed, Determination(self.instances))
        if to_exact or to_levels:
            self._purge(to_levels, to_exact)
        self._built, self._added, self._removed = len(numbers), 0, 0
        self.rebuilds += 1

    def _may_start(self, numbers: list[int]) -> bool:
        """Returns whether these rules are matched without kernels for now: if all are few, and no tables of intervals, whose index needs
        kernels."""
        if are_ready() or len(self.book.number_of) > FEW:
            return False
        return not any(isinstance(self.book.sources[number], PredicateTable) for number in numbers)

    def _compiled(self, numbers: list[int]) -> tuple[ClauseTable, dict[int, str]]:
        """Returns the clauses of rules, and the rules that must be matched exactly, with the reason."""
        if self.starting:
            table, _ = self._compiler.compile([], [])
            return table, dict.fromkeys(numbers, Refusal.STARTING)
        return self._compiler.compile(numbers, [self.book.source(number) for number in numbers])

    def _index(self, fresh: list[int], refused: dict[int, str]) -> None:
        exact = [number for number in fresh if number in refused]
        self.indexes.add_exact(exact, [self.book.source(number) for number in exact])
        if self.confirm:
            others = [number for number in fresh if number not in refused] if exact else fresh
            self.indexes.add_to_levels(others, self.book.level_of, [self.book.source(number) for number in others])

    def _publish(self, removed: Sequence[int], determination: Determination) -> None:
        version = self.snapshot.version + 1
        book = self.book
        book.died[list(removed)] = version
        self._learn_attributes()
        self.snapshot = Snapshot(
            version, book.count, book.died, book.level_of, determination, len(self.exact), len(self.attributes)
        )

    def _learn_attributes(self) -> None:
        trees = [self._compiler.vocabulary.attributes.tree, *self.indexes.attributes]
        for place, tree in enumerate(trees):
            known, count = self._learned.get(place, (tree, 0))
            names = tree.listed()
            for name in names[count if known is tree else 0 :]:
                self.attributes.add(name)
            self._learned[place] = tree, len(names)

    def _purge(self, from_exact: list[int], from_levels: list[int]) -> None:
        """Removes rules from the indexes; readers of an older version notice it and start again."""
        self.purged = self.snapshot.version
        self.indexes.exact.remove_many(from_exact)
        self.indexes.remove_from_levels(from_levels)
