"""Expressions of a loaded index: their texts, parsed when somebody asks for what they say. Matching asks the index's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.language.shapes import Expression
from ray_pubsub.language.tree import Tree

__all__ = ["SavedText", "SavedTexts"]

Parse = Callable[[str], Expression]


class SavedTexts:
    """The source of many subscriptions."""

    def __init__(self, slots: NDArray[np.int64], texts: Any, parse: Parse) -> None:
        """`texts`: an Arrow array; text i is that of slots[i], which ascend."""
        self.slots, self.texts, self._parse = slots, texts, parse

    @property
    def nbytes(self) -> int:
        return int(self.slots.nbytes + self.texts.nbytes)

    def places(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in `texts` the texts of these slots are."""
        return np.searchsorted(self.slots, slots)

    def text_at(self, slot: int) -> str:
        text: str = self.texts[int(np.searchsorted(self.slots, slot))].as_py()
        return text

    def tree_at(self, slot: int) -> Tree:
        return self._parse(self.text_at(slot)).tree

    def alone(self, slot: int) -> SavedText:
        """A source for one of them, which does not keep the others."""
        return SavedText(self.text_at(slot), self._parse)


class SavedText:
    """The source of one subscription; parsed once."""

    __slots__ = ("_expression", "_parse", "text")

    def __init__(self, text: str, parse: Parse) -> None:
        self.text, self._parse = text, parse
        self._expression: Expression | None = None

    def text_at(self, slot: int) -> str:
        return self.text

    def tree_at(self, slot: int) -> Tree:
        if self._expression is None:
            self._expression = self._parse(self.text)
        return self._expression.tree
