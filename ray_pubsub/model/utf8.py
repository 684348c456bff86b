"""Finds the strings of an Arrow column that are valid UTF-8. Arrow checks their bytes only on request, and Spark does not check them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.model.text_column import decodes

__all__ = ["valid_utf8"]


def valid_utf8(strings: Any) -> NDArray[np.bool_]:
    """Returns for each row of a column of strings whether it can be decoded. A null counts as valid."""
    try:
        strings.validate(full=True)  # checks all at once, because nearly every column is valid
        return np.ones(len(strings), dtype=np.bool_)
    except pa.ArrowInvalid:
        return np.array([not text.is_valid or decodes(text.as_buffer().to_pybytes()) for text in strings], np.bool_)
