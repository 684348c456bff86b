"""Encodes the library's errors as frames: the name of a class of `ray_pubsub.errors`, and fields that are plain values."""

from __future__ import annotations

from actors.transport.frames import ERROR, Frame, FrameReader, check, packed
from ray_pubsub import errors
from ray_pubsub.errors import RayPubSubError

__all__ = ["error_frame", "read_error"]

CLASSES: dict[str, type[RayPubSubError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, RayPubSubError)
}
PLAIN = {str, int, float, bool, type(None)}


def error_frame(error: RayPubSubError) -> Frame | None:
    """Returns the frame, or None if the error has fields that are not plain values, so that only Ray can carry it."""
    fields = error.__dict__
    if type(error).__name__ not in CLASSES or not set(map(type, (*error.args, *fields.values()))) <= PLAIN:
        return None
    return Frame(ERROR, packed((type(error).__name__, list(error.args), list(fields), list(fields.values()))))


def read_error(frame: Frame) -> RayPubSubError:
    """Reads an error. Raises ProtocolError, or any other exception for a frame that is not valid (`frames.decoded`)."""
    reader = FrameReader(frame.header, frame.columns, fields=4)
    name, arguments, names, values = reader.fields
    check(set(map(type, (*arguments, *values))) <= PLAIN, "an error with fields that are not plain values")
    check(set(map(type, names)) <= {str}, "fields without names")
    kind = CLASSES[name]
    error = kind.__new__(kind)
    error.args = tuple(arguments)
    error.__dict__.update(zip(names, values, strict=True))
    return error
