"""Builds calls of the functions that are true or false of attributes and constants (holding.py), and checks their arguments."""

from __future__ import annotations

from typing import Any

from ray_pubsub.errors import ExpressionLimitError, ExpressionTypeError, counted
from ray_pubsub.language.building import predicates
from ray_pubsub.language.building.constants import check_readable
from ray_pubsub.language.building.quantified import check_has_value
from ray_pubsub.language.building.term_kinds import check_may_be
from ray_pubsub.language.printer import computed_name, write_term
from ray_pubsub.language.terms import Listed, Term, as_value
from ray_pubsub.language.tree import Constant, Holds, Operand
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["HOLDING", "compares_attributes", "holding"]

HOLDING = {
    "list_contains",
    "list_has_any",
    "list_has_all",
    "exists",
    "ip_in",
    "geo_within",
    "geo_in_box",
    "geo_in_polygon",
}


LISTS = {"list_contains", "list_has_any", "list_has_all"}


def compares_attributes(function: str, arguments: list[Any]) -> bool:
    """Returns whether a list is compared with another attribute instead of constants: `list_contains(tags, name)`. Such a call is a
    term."""
    if function not in LISTS or len(arguments) != 2:
        return False
    wanted = arguments[1]
    is_constant = isinstance(wanted, tuple) and isinstance(wanted[1], Constant)
    return not (is_constant or isinstance(wanted, Operand | Listed))


def holding(function: str, arguments: list[Any], limits: Limits) -> tuple[int, Holds]:
    """Returns the predicate, with its depth. The condition of `exists` is about one element, and its names are the element's."""
    terms: list[Term] = [as_value(each[1]) if isinstance(each, tuple) else each for each in arguments]
    shown = f"{function}({', '.join(map(write_term, terms))})"
    for term in terms:
        check_readable(term, shown)
        check_has_value(term)
    if function in PLACES:
        return 1, _in_shape(function, terms, shown)
    if function == "ip_in":
        return 1, _ip_in(terms, shown)
    if len(terms) != 2:
        raise ExpressionTypeError(shown, f"{function} takes 2 arguments, not {len(terms)}")
    subject, wanted = terms
    check_may_be(subject, Kind.LIST, shown, f"the first argument of {function} is an attribute that is a list")
    name = computed_name(subject)
    if function == "exists":
        depth, condition = arguments[1] if isinstance(arguments[1], tuple) else (1, predicates.bare(wanted))
        return depth + 1, Holds(function, (name,), (), condition)
    if function == "list_contains":
        if not isinstance(wanted, Operand):
            raise ExpressionTypeError(shown, f"the second argument of {function} is one value, not a list")
        return 1, Holds(function, (name,), (wanted,))
    if not isinstance(wanted, Listed):
        raise ExpressionTypeError(shown, f"the second argument of {function} is a list: ['a', 'b'], or an attribute")
    if len(wanted.members) > limits.set_size:
        raise ExpressionLimitError("set_size", limits.set_size, len(wanted.members))
    return 1, Holds(function, (name,), wanted.members)


def _ip_in(terms: list[Term], shown: str) -> Holds:
    """Builds `ip_in(address, 'network', …)`."""
    if len(terms) < 2:
        raise ExpressionTypeError(
            shown, f"ip_in takes an address and one or more networks, not {counted(len(terms), 'argument')}"
        )
    subject, *networks = terms
    constants = [network for network in networks if isinstance(network, Operand) and network.kind is Kind.STRING]
    check_may_be(subject, Kind.STRING, shown, "the first argument of ip_in is an attribute that is a string")
    if len(constants) < len(networks):
        raise ExpressionTypeError(shown, "the networks of ip_in are constants: '10.0.0.0/8'")
    return Holds("ip_in", (computed_name(subject),), tuple(constants))


PLACES = {
    "geo_within": ("latitude", "longitude", "kilometres"),
    "geo_in_box": ("south", "west", "north", "east"),
    "geo_in_polygon": ("polygon",),
}
"""The arguments that these functions take after an event's latitude and longitude."""


def _in_shape(function: str, terms: list[Term], shown: str) -> Holds:
    wanted = PLACES[function]
    if len(terms) != 2 + len(wanted):
        raise ExpressionTypeError(
            shown, f"{function} takes latitude, longitude, {', '.join(wanted)}; not {counted(len(terms), 'argument')}"
        )
    for subject in terms[:2]:
        check_may_be(
            subject, Kind.NUMBER, shown, f"the first arguments of {function} are attributes: latitude and longitude"
        )
    kind = Kind.STRING if function == "geo_in_polygon" else Kind.NUMBER
    constants = [term for term in terms[2:] if isinstance(term, Operand) and term.kind is kind]
    if len(constants) < len(wanted):
        raise ExpressionTypeError(shown, f"{function} takes constants for {', '.join(wanted)}, each a {kind}")
    return Holds(function, tuple(computed_name(subject) for subject in terms[:2]), tuple(constants))
