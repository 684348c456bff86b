"""One level's entries leave in the order in which they were put, however they came back."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from actors.mailboxes.queue.line import Line


@given(
    dues=st.lists(st.integers(0, 9).map(float), min_size=1, max_size=40),
    data=st.data(),
)
def test_what_came_back_leaves_in_its_old_order(dues: list[float], data: st.DataObject) -> None:
    line = Line()
    entries = [(order, 0.0, due, 0, 0, None) for order, due in enumerate(dues)]
    for entry in entries:
        line.append(entry)
    taken = line.pop(data.draw(st.integers(0, len(entries))))
    back = data.draw(st.permutations(taken))
    for entry in back:
        assert line.give_back(entry)
        assert not line.give_back(entry)
    now = data.draw(st.integers(0, 9).map(float))
    assert line.count_overdue(now) == sum(entry[2] < now for entry in entries)
    overdue = list(takewhile(lambda entry: entry[2] < now, entries))
    assert line.pop_overdue_heads(now) == overdue
    assert line.pop(len(entries)) == entries[len(overdue) :]
    assert len(line) == 0
    assert all(line.give_back(entry) for entry in back)  # nothing is remembered of what has left
