"""Builds predicates from their parts, with the checks that both parsers need: kinds that can be compared, limits, patterns that compile.

The two parsers (grammar.py, the specification, and parser.py, the fast one) differ in how they find the parts; this module defines what
the parts mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ray_pubsub.errors import ExpressionLimitError, ExpressionTypeError
from ray_pubsub.language import words
from ray_pubsub.language.building.constants import BrokenConstant
from ray_pubsub.language.building.quantified import QUANTIFIERS, check_has_value, quantified
from ray_pubsub.language.building.term_kinds import is_sum, kind_of, of_a_sum
from ray_pubsub.language.functions.folding import simple_lower
from ray_pubsub.language.functions.networks import read_network
from ray_pubsub.language.functions.places import is_place, polygon_of
from ray_pubsub.language.patterns import compile_regexp, like_to_regexp
from ray_pubsub.language.printer import computed_name, write, write_term
from ray_pubsub.language.terms import Call, Condition, Listed, Term, parts_of
from ray_pubsub.language.tree import (
    Between,
    BooleanAttribute,
    Comparison,
    Constant,
    Holds,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Operand,
    Operator,
    Regexp,
    Tree,
    conjunction,
    disjunction,
    leaves,
    operands,
)
from ray_pubsub.language.truth import truth
from ray_pubsub.model.values import Kind, Value
from ray_pubsub.settings import Limits

__all__ = [
    "FLIPPED",
    "SYNONYMS",
    "BrokenConstant",
    "Subject",
    "bare",
    "between",
    "changed",
    "check_condition",
    "check_leaf",
    "check_leaves",
    "check_pattern",
    "comparison",
    "in_lower_case",
    "is_checked",
    "is_null",
    "like",
    "member",
    "mixed",
    "regexp",
]

FLIPPED: dict[str, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
SYNONYMS: dict[str, Operator] = {
    "=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip


Subject = Term
"""What may be a side of a predicate."""


def comparison(left: Subject, symbol: str, right: Subject, limits: Limits) -> Tree:
    """Builds `left symbol right`. If neither side is a constant, the comparison is a term of its own, true or false."""
    operator = SYNONYMS[symbol]
    check_condition(left, limits)
    check_condition(right, limits)
    quantifier = next((side for side in (left, right) if isinstance(side, Call) and side.function in QUANTIFIERS), None)
    if quantifier is not None:
        if quantifier is left:
            left, operator, right = right, FLIPPED[operator], left
        return quantified(left, operator, quantifier)
    if isinstance(left, Operand) and not isinstance(right, Operand):
        left, operator, right = right, FLIPPED[operator], left
    if isinstance(right, Operand):
        constant = right
        return _checked(left, lambda name: Comparison(name, operator, constant), limits)
    since = _since_now(left, operator, right, limits) or _since_now(right, FLIPPED[operator], left, limits)
    if since is not None:
        return since
    if operator in (">", ">="):
        left, operator, right = right, FLIPPED[operator], left
    kinds = {kind_of(left), kind_of(right)} - {None}
    text = f"{write_term(left)} {operator} {write_term(right)}"
    if isinstance(left, Listed) or isinstance(right, Listed):
        raise ExpressionTypeError(text, "lists are not compared: write list_has_any(…, […]) or list_has_all(…, […])")
    if len(kinds) > 1:
        raise ExpressionTypeError(text, mixed(kinds))
    return BooleanAttribute(computed_name(Call(operator, (left, right))))


def _since_now(left: Subject, operator: Operator, right: Subject, limits: Limits) -> Tree | None:
    """Rewrites `t > now() - interval '1 hour'` to `now() - t < interval '1 hour'`: one term, in microseconds, serves all such intervals,
    so an index stores only the constant, and nothing in it changes as time passes. Returns None for any other comparison."""
    match right:
        case Call("now"):
            ahead = Operand(Kind.NUMBER, 0)
        case Call("+", (Call("now"), Operand(Kind.NUMBER) as offset)):
            ahead = changed(offset, negated_number)
        case Call("-", (Call("now"), Operand(Kind.NUMBER) as offset)):
            ahead = offset
        case _:
            return None
    moment = kind_of(left) in (None, Kind.TIMESTAMP)
    if (
        isinstance(left, Operand)
        or not moment
        or not isinstance(ahead.plain, int)
        or any(_is_now(part) for part in parts_of(left))
    ):
        return None
    return comparison(Call("-", (Call("now", ()), left)), FLIPPED[operator], ahead, limits)


def negated_number(number: int | float) -> int | float:
    return -number


def _is_now(part: Subject) -> bool:
    return isinstance(part, Call) and part.function == "now"


def between(subject: Subject, low: Subject, high: Subject, negated: bool, limits: Limits) -> Tree:
    if not (isinstance(low, Operand) and isinstance(high, Operand)):
        inside = conjunction([comparison(subject, ">=", low, limits), comparison(subject, "<=", high, limits)])
        return Not(inside) if negated else inside
    least, largest = low, high
    return _checked(subject, lambda name: Between(name, least, largest, negated), limits)


def member(subject: Subject, members: Sequence[Subject], negated: bool, limits: Limits) -> Tree:
    if not all(isinstance(each, Operand) for each in members):
        found = disjunction([comparison(subject, "=", each, limits) for each in members])
        return Not(found) if negated else found
    constants = tuple(each for each in members if isinstance(each, Operand))
    return _checked(subject, lambda name: In(name, constants, negated), limits)


def like(
    subject: Subject, pattern: Operand, escape: Operand | None, negated: bool, limits: Limits, *, folded: bool = False
) -> Leaf:
    """`folded`: case is ignored, in the text and in the pattern."""
    if escape is not None and isinstance(escape.plain, BrokenConstant):
        raise ExpressionTypeError(f"escape {escape.plain}", escape.plain.problem, escape.place)
    if escape is not None and len(escape.plain) > 1:
        raise ExpressionTypeError(
            f"escape '{escape.plain}'", "the escape of a like pattern is one character", escape.place
        )
    character = escape.plain or None if escape else None
    if folded:
        check_has_value(subject)
        subject, pattern = in_lower_case(subject), changed(pattern, simple_lower)
        character = character and simple_lower(character)
    return _checked(subject, lambda name: Like(name, pattern, character, negated), limits)


def in_lower_case(subject: Subject) -> Subject:
    """Returns a value in lower case. What is never a text stays as it is: the check of the predicate refuses it."""
    if not isinstance(subject, Operand):
        is_ready = isinstance(subject, Call) and subject.function == "lower"
        return subject if is_ready or kind_of(subject) not in (None, Kind.STRING) else Call("lower", (subject,))
    return changed(subject, simple_lower) if subject.kind == Kind.STRING else subject


def changed(operand: Operand, change: Callable[[Any], Any]) -> Operand:
    """Returns a constant that is used in another form than it is written in."""
    if isinstance(operand.plain, BrokenConstant):
        return operand
    return replace(operand, plain=change(operand.plain), made=change)


def regexp(subject: Subject, pattern: Operand, negated: bool, limits: Limits) -> Leaf:
    return _checked(subject, lambda name: Regexp(name, pattern, negated), limits)


def is_null(subject: Subject, negated: bool, limits: Limits) -> Leaf:
    return _checked(subject, lambda name: IsNull(name, negated), limits)


def bare(subject: Subject) -> Tree:
    """Returns a value used as a condition."""
    if isinstance(subject, Condition):
        return subject.tree
    if isinstance(subject, Operand):
        if isinstance(subject.plain, BrokenConstant):
            raise ExpressionTypeError(subject.plain.text, subject.plain.problem, subject.place)
        if subject.kind not in (None, Kind.BOOLEAN):
            constant = words.write_operand(subject.kind, subject.plain)
            raise ExpressionTypeError(constant, f"a {subject.kind} stands where a condition is expected")
        return Constant(subject.plain)
    check_has_value(subject)
    kind = kind_of(subject)
    if kind not in (None, Kind.BOOLEAN):
        raise ExpressionTypeError(write_term(subject), f"a {kind} stands where a condition is expected")
    return BooleanAttribute(computed_name(subject))


def check_leaves(tree: Tree, limits: Limits) -> None:
    """Raises an error for a predicate whose constants are not acceptable, or for too many predicates."""
    count = 0
    for leaf in all_leaves(tree):
        count += 1
        if isinstance(leaf, Comparison):
            continue
        if isinstance(leaf, Like | Regexp):
            check_pattern(leaf, limits)
        elif isinstance(leaf, In) and len(leaf.members) > limits.set_size:
            raise ExpressionLimitError("set_size", limits.set_size, len(leaf.members))
        elif isinstance(leaf, Holds):
            if len(leaf.constants) > limits.set_size:
                raise ExpressionLimitError("set_size", limits.set_size, len(leaf.constants))
            if leaf.function in CHECKED:
                check_constants(leaf)
    if count > limits.leaves:
        raise ExpressionLimitError("leaves", limits.leaves, count)


def check_condition(subject: Subject, limits: Limits) -> None:
    """Checks the predicates of a condition that is compared as a value: the finished tree has only its name."""
    if isinstance(subject, Condition):
        check_leaves(subject.tree, limits)


CHECKED = {"ip_in", "exists", "geo_within", "geo_in_box", "geo_in_polygon"}
"""Functions whose constants must be checked one by one."""


def is_checked(leaf: Leaf) -> bool:
    """Returns whether the constants of a predicate must be checked one by one, beside their kinds."""
    return isinstance(leaf, Like | Regexp) or (isinstance(leaf, Holds) and leaf.function in CHECKED)


def check_leaf(leaf: Tree, limits: Limits) -> None:
    """Raises an error for constants that are not acceptable."""
    if isinstance(leaf, Holds):
        check_leaves(leaf, limits)
    elif isinstance(leaf, Like | Regexp):
        check_pattern(leaf, limits)


def check_constants(leaf: Holds) -> None:
    """Raises ExpressionTypeError for a network, place or polygon that is not valid."""
    plains = [constant.plain for constant in leaf.constants]
    try:
        match leaf.function:
            case "ip_in":
                for plain in plains:
                    read_network(plain)
            case "geo_in_polygon":
                polygon_of(plains[0])
            case "geo_within":
                _check_place(plains[0], plains[1])
                if not 0 <= plains[2] < float("inf"):
                    raise words.BadConstant("the kilometres are not negative, and finite")
            case "geo_in_box":
                _check_place(plains[0], plains[1])
                _check_place(plains[2], plains[3])
    except words.BadConstant as problem:
        raise ExpressionTypeError(write(leaf), str(problem), _place_of(leaf)) from None


def _place_of(leaf: Leaf) -> int | None:
    """Returns where the first constant of a predicate stands in the text, if that is known."""
    return next((operand.place for operand in operands(leaf) if operand.place >= 0), None)


def _check_place(latitude: float, longitude: float) -> None:
    if not is_place(latitude, longitude):
        raise words.BadConstant(
            f"{latitude}, {longitude} is no place: latitude comes first, from -90 to 90, then longitude"
        )


def all_leaves(tree: Tree) -> Iterator[Leaf]:
    """Yields the predicates, including those on elements of lists."""
    for leaf in leaves(tree):
        yield leaf
        if isinstance(leaf, Holds) and leaf.condition is not None:
            yield from all_leaves(leaf.condition)


def check_pattern(leaf: Like | Regexp, limits: Limits) -> None:
    pattern = leaf.pattern.plain
    if len(pattern) > limits.pattern_length:
        raise ExpressionLimitError("pattern_length", limits.pattern_length, len(pattern))
    try:
        if isinstance(leaf, Like):
            like_to_regexp(pattern, leaf.escape)
        else:
            compile_regexp(pattern)
    except words.BadConstant as problem:
        raise ExpressionTypeError(write(leaf), str(problem), _place_of(leaf)) from None


def _checked(subject: Subject, build: Callable[[str], Leaf], limits: Limits) -> Leaf:
    """Returns the predicate on an attribute or a term. A predicate on a constant is evaluated, and its truth is returned."""
    check_has_value(subject)
    check_condition(subject, limits)
    leaf = build("" if isinstance(subject, Operand) else computed_name(subject))
    for operand in (subject, *operands(leaf)):
        if isinstance(operand, Operand) and isinstance(operand.plain, BrokenConstant):
            raise ExpressionTypeError(_text(subject, leaf), operand.plain.problem, operand.place)
    kinds = {operand.kind for operand in operands(leaf)} - {None}
    if isinstance(subject, Operand):
        kinds |= {subject.kind} - {None}
    else:
        if isinstance(leaf, Like | Regexp):
            kinds = {Kind.STRING}
        kinds |= {kind_of(subject)} - {None} if not isinstance(leaf, IsNull) else set()
    if len(kinds) > 1:
        raise ExpressionTypeError(_text(subject, leaf), mixed(kinds))
    if is_sum(subject):
        for kind in {Kind.STRING, Kind.BOOLEAN} & kinds:
            raise ExpressionTypeError(_text(subject, leaf), of_a_sum(subject, kind))
    if isinstance(subject, Listed):
        raise ExpressionTypeError(_text(subject, leaf), "lists are not compared: functions look into them")
    if not isinstance(subject, Operand):
        return leaf
    check_leaves(leaf, limits)
    event = {} if subject.kind is None else {"": Value(subject.kind, subject.plain)}
    return Constant(truth(leaf, event))


def mixed(kinds: Iterable[Kind | None]) -> str:
    """Returns the reason why values of these kinds are refused beside each other."""
    named = " and ".join(sorted(f"a {kind}" for kind in kinds if kind is not None))
    return f"{named} cannot be compared"


def _text(subject: Subject, leaf: Leaf) -> str:
    if not isinstance(subject, Operand):
        return write(leaf)
    return words.write_operand(subject.kind, subject.plain) + write(leaf).removeprefix('""')
