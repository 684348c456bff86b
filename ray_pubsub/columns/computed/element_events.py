"""The elements of lists as the conditions of `exists` see them: an object has its own attributes, any other value the attribute `element`.

In a list's columns such a value has no name, so that functions of scalars cannot take an object's attribute for one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_pubsub.language.terms import ELEMENT
from ray_pubsub.model.event_batch import EventBatch, Plans, merged_lanes

__all__ = ["named_elements"]

NAMED = "named elements"


def named_elements(elements: EventBatch) -> EventBatch:
    """Returns the elements of a list with names for those that have none. The result is kept with the elements."""
    if not any(lane.attribute == "" for lane in elements.lanes):
        return elements
    found: EventBatch | None = elements.plans.get(NAMED)
    if found is not None:
        return found
    others = [lane for lane in elements.lanes if lane.attribute != ""]
    named = [replace(lane, attribute=ELEMENT) for lane in elements.lanes if lane.attribute == ""]
    lanes = merged_lanes(others, named, np.arange(elements.size, dtype=np.int32), elements.size)
    found = replace(elements, lanes=lanes, plans=Plans(), _layout=None, _cells=None)
    return elements.plans.remember(NAMED, found)
