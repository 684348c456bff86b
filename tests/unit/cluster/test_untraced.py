"""Ray leaves the methods of an actor alone that only the actor itself calls."""

from __future__ import annotations

from ray.util.tracing.tracing_helper import _inject_tracing_into_class

from actors.cluster.ray_internals import untraced


class Plain:
    def called(self) -> str:
        return self._own()

    def _own(self) -> str:
        return "answer"


@untraced
class Remote(Plain):
    """What becomes an actor."""


def test_private_methods_are_not_wrapped() -> None:
    made = _inject_tracing_into_class(type("Made", (Remote,), {}))  # as ray.remote does
    assert "_own" not in vars(made) and vars(made)["called"] is not Plain.called
    assert made().called() == "answer"
