"""The expressions of a loaded index as texts, parsed when they are needed; matching uses the blocks and does not need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.errors import IndexFileError
from ray_pubsub.language.shapes import Expression
from ray_pubsub.language.tree import Tree

__all__ = ["SavedText", "SavedTexts"]

Parse = Callable[[str], Expression]


class SavedTexts:
    """The source of many subscriptions."""

    def __init__(self, slots: NDArray[np.int64], texts: Any, parse: Parse, name: str) -> None:
        """`texts` is an Arrow array; text i belongs to slots[i], which ascend. `name` is that of the file, for errors."""
        self.slots, self.texts, self._name = slots, texts, name

        def parse_saved(text: str) -> Expression:
            try:
                return parse(text)
            except ValueError as error:
                raise IndexFileError(name, f"is damaged: a subscription that cannot be read: {error}") from error

        self._parse = parse_saved

    @property
    def nbytes(self) -> int:
        return int(self.slots.nbytes + self.texts.nbytes)

    def places(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the positions in `texts` of these slots' texts."""
        return np.searchsorted(self.slots, slots)

    def text_at(self, slot: int) -> str:
        try:
            text: str = self.texts[int(np.searchsorted(self.slots, slot))].as_py()
        except UnicodeDecodeError as error:
            raise IndexFileError(self._name, "is damaged: a subscription that is not valid UTF-8") from error
        return text

    def tree_at(self, slot: int) -> Tree:
        return self._parse(self.text_at(slot)).tree

    def alone(self, slot: int) -> SavedText:
        """Returns a source for one of the texts, which does not keep the others in memory."""
        return SavedText(self.text_at(slot), self._parse)


class SavedText:
    """The source of one subscription, which is parsed once."""

    __slots__ = ("_parse", "_tree", "text")

    def __init__(self, text: str, parse: Parse) -> None:
        self.text, self._parse = text, parse
        self._tree: Tree | None = None

    def text_at(self, slot: int) -> str:
        return self.text

    def tree_at(self, slot: int) -> Tree:
        if self._tree is None:
            self._tree = self._parse(self.text).tree
        return self._tree
