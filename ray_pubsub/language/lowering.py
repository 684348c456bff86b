"""Converts a function that is true or false of attributes and constants to tests that an index can store.

Testing a list for one constant is a flag: a computed attribute that an event has, with the value true, if the test holds, and otherwise
does not have. So the number of an event's flags depends on its elements, not on the number of constants in subscriptions, and clauses are
found by the flags that an event has. A missing flag means "false" only if the event has the list: `not` therefore also tests that the
list exists.

Order comparisons with `any` and `all` need no flags: some element is above 5 exactly if the largest is.
"""

from __future__ import annotations

from functools import lru_cache

from ray_pubsub.language.functions.networks import read_network
from ray_pubsub.language.printer import computed_name, write
from ray_pubsub.language.terms import COMPUTED, Call, Condition, term_of
from ray_pubsub.language.tree import (
    Between,
    BooleanAttribute,
    Comparison,
    Constant,
    Holds,
    IsNull,
    Not,
    Operand,
    Operator,
    Tree,
    conjunction,
    disjunction,
)
from ray_pubsub.model.values import Kind

__all__ = ["flag_name", "is_flag", "lowered", "tested_names", "whole_tests"]

ZERO = Operand(Kind.NUMBER, 0)
FLAGS = {"list_contains", "list_has_any", "exists", "geo_within", "geo_in_polygon"}
"""Functions that have a flag for each of their constants."""
MOST_FLAGS = 256
"""Constants of one list_has_all. More are one computed attribute, true or false: thousands of flags for one subscription take seconds
to add."""
FLIPPED: dict[str, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE: dict[str, Operator] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def is_flag(leaf: Holds) -> bool:
    """Returns whether the predicate only tests that an event has one flag."""
    return leaf.function in FLAGS and all(constant.kind is not None for constant in leaf.constants)


def flag_name(leaf: Holds) -> str:
    """Returns the computed attribute that says whether it holds."""
    return COMPUTED + write(leaf)


def lowered(leaf: Holds, negated: bool) -> Tree:
    """Returns predicates on attributes and computed attributes that are TRUE exactly if the function (or its negation) is."""
    name = leaf.attributes[0]
    match leaf.function:
        case "list_has_any" | "list_has_all":
            return _of_set(leaf, name, negated)
        case "list_contains" | "exists":
            if any(constant.kind is None for constant in leaf.constants):
                return Constant(None)
            return _flag(leaf, name, negated)
        case "geo_within" | "geo_in_polygon":
            flag = BooleanAttribute(flag_name(leaf))
            if not negated:
                return flag
            return conjunction([*_is_place(leaf), disjunction([IsNull(flag.attribute), Not(flag)])])
        case "geo_in_box":
            return _in_box(leaf, negated)
        case "ip_in":
            return _in_networks(leaf, name, negated)
        case _:
            return _quantified(leaf, name, negated)


def _flag(leaf: Holds, name: str, negated: bool) -> Tree:
    flag = flag_name(leaf)
    if not negated:
        return BooleanAttribute(flag)
    return conjunction([_is_list(name), disjunction([IsNull(flag), Not(BooleanAttribute(flag))])])


def _is_list(name: str) -> Tree:
    return Comparison(computed_name(Call("cardinality", (term_of(name),))), ">=", ZERO)


def _of_set(leaf: Holds, name: str, negated: bool) -> Tree:
    members = tuple(dict.fromkeys(constant for constant in leaf.constants if constant.kind is not None))
    if leaf.function == "list_has_any":
        if members:
            return _flag(Holds(leaf.function, leaf.attributes, members), name, negated)
        return _is_list(name) if negated else Constant(False)
    if not members:
        return Constant(False) if negated else _is_list(name)
    if len(members) > MOST_FLAGS:
        whole = BooleanAttribute(computed_name(Condition(leaf)))
        return Not(whole) if negated else whole
    each = [_flag(Holds("list_contains", leaf.attributes, (member,)), name, negated) for member in members]
    return disjunction(each) if negated else conjunction(each)


def _is_place(leaf: Holds) -> list[Tree]:
    latitude, longitude = leaf.attributes
    return [_interval(latitude, -90, 90), _interval(longitude, -180, 180)]


def _interval(name: str, low: float, high: float) -> Between:
    return Between(name, Operand(Kind.NUMBER, low), Operand(Kind.NUMBER, high))


def _in_box(leaf: Holds, negated: bool) -> Tree:
    """Returns two intervals; across the antimeridian there are two intervals of longitudes."""
    south, west, north, east = (constant.plain for constant in leaf.constants)
    latitude, longitude = leaf.attributes
    across = (
        [_interval(longitude, west, east)]
        if west <= east
        else [_interval(longitude, west, 180), _interval(longitude, -180, east)]
    )
    inside = conjunction([_interval(latitude, south, north), disjunction([*across])])
    return conjunction([*_is_place(leaf), Not(inside)]) if negated else conjunction([*_is_place(leaf), inside])


def _in_networks(leaf: Holds, name: str, negated: bool) -> Tree:
    """Returns intervals of addresses. An address has either a number of IPv4 or the two halves of IPv6, so `not` is applied to each
    separately."""
    names = {function: _called(function, name) for function in ("ip4", "ip6_upper", "ip6_lower")}
    inside: dict[str, list[Tree]] = {"ip4": [], "ip6": []}
    for constant in leaf.constants:
        network = read_network(constant.plain)
        first, last = Operand(Kind.NUMBER, network.first), Operand(Kind.NUMBER, network.last)
        within: Tree = Between(names[network.function], first, last)
        if network.upper is not None:
            within = conjunction([Comparison(names["ip6_upper"], "=", Operand(Kind.NUMBER, network.upper)), within])
        inside[network.function[:3]].append(within)
    if not negated:
        return disjunction([*inside["ip4"], *inside["ip6"]])
    outside = [
        conjunction([IsNull(names["ip4"], negated=True), *map(Not, inside["ip4"])]),
        conjunction([IsNull(names["ip6_upper"], negated=True), *map(Not, inside["ip6"])]),
    ]
    return disjunction(outside)


@lru_cache(maxsize=4096)
def _called(function: str, name: str) -> str:
    """Returns the computed attribute that is a function of another one."""
    return computed_name(Call(function, (term_of(name),)))


def whole_tests(leaf: Holds) -> list[tuple[str, Kind, float, float]] | None:
    """Returns the name, kind and bounds of each test if the function is a conjunction of intervals, each on an attribute of its own; no
    tests if it can never hold with these constants, and None for every other function."""
    if is_flag(leaf):
        return [(flag_name(leaf), Kind.BOOLEAN, 1, 1)]
    if leaf.function == "ip_in" and len(leaf.constants) == 1:
        network = read_network(leaf.constants[0].plain)
        if network.upper is None:
            name = _called(network.function, leaf.attributes[0])
            return [(name, Kind.NUMBER, network.first, network.last)]
    if leaf.function == "geo_in_box" and len(set(leaf.attributes)) == 2:
        south, west, north, east = (constant.plain for constant in leaf.constants)
        latitude, longitude = leaf.attributes
        if west <= east:
            tests = [(latitude, Kind.NUMBER, south, north), (longitude, Kind.NUMBER, west, east)]
            return tests if south <= north else []
    return None


def tested_names(leaf: Holds) -> tuple[str, ...]:
    """Returns the names that the tests of a box or of networks are on."""
    if leaf.function == "ip_in":
        return tuple(_called(function, leaf.attributes[0]) for function in ("ip4", "ip6_upper", "ip6_lower"))
    return leaf.attributes


def _quantified(leaf: Holds, name: str, negated: bool) -> Tree:
    """Converts `constant symbol any(list)` to a test of the least or the largest element of the constant's kind."""
    symbol, quantifier = leaf.function.split()
    constant = leaf.constants[0]
    if constant.kind is None:
        return Constant(None)
    kind = Operand(Kind.STRING, str(constant.kind))
    least, largest = (computed_name(Call(function, (term_of(name), kind))) for function in ("list_min", "list_max"))
    empty = conjunction([_is_list(name), IsNull(least)])
    if (symbol == "=" and quantifier == "any") or (symbol == "!=" and quantifier == "all"):
        member = Holds("list_contains", leaf.attributes, leaf.constants)
        return _flag(member, name, negated != (quantifier == "all"))
    if symbol in ("=", "!="):  # all equal, or its opposite: one differs
        if (quantifier == "all") != negated:
            same = conjunction([Comparison(least, "=", constant), Comparison(largest, "=", constant)])
            return disjunction([empty, same])
        return disjunction([Comparison(least, "!=", constant), Comparison(largest, "!=", constant)])
    turned = FLIPPED[symbol]  # element `turned` constant
    if quantifier == "any":
        extreme = largest if turned in (">", ">=") else least
        if not negated:
            return Comparison(extreme, turned, constant)
        return disjunction([empty, Comparison(extreme, OPPOSITE[turned], constant)])
    extreme = least if turned in (">", ">=") else largest
    if negated:
        return Comparison(extreme, OPPOSITE[turned], constant)
    return disjunction([empty, Comparison(extreme, turned, constant)])
