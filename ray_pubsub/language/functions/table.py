"""The table of the language's functions: names, argument and result kinds, and their meaning for single values.

truth.py evaluates terms with this table, and columns/computed/ calls it once per distinct value where it has no faster way. A function is
unknown (None) if an argument is absent or of a kind that it does not take, unless it is `tolerant` and handles such arguments itself.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ray_pubsub.language.functions import arithmetic, moments, networks
from ray_pubsub.language.functions.folding import simple_lower, simple_upper
from ray_pubsub.model.values import INT64_MIN, Kind, Value
from ray_pubsub.settings import MADE_TEXT

__all__ = ["FUNCTIONS", "OPERATORS", "SYNONYMS", "Function", "call", "scalars_of"]

N, S, B, T, L = Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.LIST
ANY = frozenset(Kind) - {L}
"""Kinds that have an order."""


@dataclass(frozen=True, slots=True)
class Function:
    """`takes`: the kinds of each argument; if `most` is None, the last ones repeat. `gives`: the kind of the result, None if it depends
    on the arguments. `compute`: takes and returns plain values, or Values if `tolerant`."""

    name: str
    takes: tuple[frozenset[Kind], ...]
    gives: Kind | None
    compute: Callable[..., Any]
    least: int
    most: int | None
    tolerant: bool = False

    def takes_at(self, place: int) -> frozenset[Kind]:
        """Returns the kinds that an argument may have."""
        return self.takes[min(place, len(self.takes) - 1)]


FUNCTIONS: dict[str, Function] = {}
SYNONYMS = {
    "len": "length", "char_length": "length", "character_length": "length", "array_length": "cardinality",
    "size": "cardinality", "array_size": "cardinality", "substring": "substr",
    "lcase": "lower", "ucase": "upper", "ceiling": "ceil", "startswith": "starts_with", "endswith": "ends_with", "prefix": "starts_with",
    "suffix": "ends_with", "ifnull": "coalesce", "nvl": "coalesce", "mod": "%", "array_contains": "list_contains",
    "list_has": "list_contains", "array_has": "list_contains", "arrays_overlap": "list_has_any", "array_has_any": "list_has_any",
    "array_has_all": "list_has_all", "array_min": "list_min", "array_max": "list_max", "some": "any",
    "datepart": "date_part", "weekday": "dayofweek",
    "weekofyear": "week", "dayofmonth": "day", "datetrunc": "date_trunc", "current_timestamp": "now",
}  # fmt: skip
"""Other names of functions."""
OPERATORS = {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "||": 4, "=": 3, "!=": 3, "<": 3, "<=": 3}
"""Functions that are written between their arguments, and their precedence."""


def call(name: str, arguments: list[Value | None]) -> Value | None:
    """Returns the value of a function; None if it is unknown."""
    function = FUNCTIONS[name]
    if function.tolerant:
        found: Value | None = function.compute(*arguments)
        return found
    plains = []
    for place, value in enumerate(arguments):
        if value is None or value.kind not in function.takes_at(place):
            return None
        plains.append(arithmetic.plain_number(value.plain) if value.kind is N else value.plain)
    plain = function.compute(*plains)
    return None if plain is None else Value(function.gives, plain)  # type: ignore[arg-type]


def _define(
    name: str, takes: str, gives: Kind | None, compute: Callable[..., Any], least: int = -1, *, tolerant: bool = False
) -> None:
    """`takes`: one letter per argument, then … if the last one repeats."""
    kinds = {"n": {N}, "s": {S}, "b": {B}, "t": {T}, "l": {L}, "a": ANY, "m": {S, L}, "p": {N, T}, "w": {S, N}}
    letters = takes.removesuffix("…")
    found = tuple(frozenset(kinds[letter]) for letter in letters)
    most = None if takes.endswith("…") else len(letters)
    FUNCTIONS[name] = Function(name, found, gives, compute, len(letters) if least < 0 else least, most, tolerant)


def _substr(text: str, start: Any, length: Any = None) -> str | None:
    """Returns a part of a text. Characters count from 1, or from the end if `start` is negative."""
    if not isinstance(start, int) or not (length is None or (isinstance(length, int) and length >= 0)):
        return None
    first = start - 1 if start > 0 else (len(text) + start if start < 0 else -1)
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def _number(number: Any) -> Any:
    return None if number is None else arithmetic.plain_number(number)


def _least(*values: Value | None) -> Value | None:
    return _extreme(values, operator.lt)


def _greatest(*values: Value | None) -> Value | None:
    return _extreme(values, operator.gt)


def _extreme(values: tuple[Value | None, ...], before: Callable[[Any, Any], bool]) -> Value | None:
    """Returns the least or largest value. Absent values are skipped, as in DuckDB; values of different kinds cannot be compared."""
    present = [value for value in values if value is not None]
    if not present or len({value.kind for value in present}) > 1 or present[0].kind is L:
        return None
    best = present[0]
    for value in present[1:]:
        if before(value.plain, best.plain):
            best = value
    return best


def _of_elements(elements: Value | None, kind: Value | None, choose: Callable[..., Value | None]) -> Value | None:
    """Chooses one of a list's elements, or of those of one kind; nulls are skipped."""
    if elements is None or elements.kind is not L:
        return None
    scalars = [element for element in elements.plain if isinstance(element, Value)]
    return choose(*[each for each in scalars if kind is None or str(each.kind) == kind.plain])


def _coalesce(*values: Value | None) -> Value | None:
    return next((value for value in values if value is not None), None)


def _concat(*values: Value | None) -> Value | None:
    """Concatenates texts. Absent values are skipped, as in DuckDB; with `||` the result would be unknown."""
    present = [value for value in values if value is not None]
    if any(value.kind is not S for value in present):
        return None
    if sum(len(value.plain) for value in present) > MADE_TEXT:
        return None
    return Value(S, "".join(value.plain for value in present))


def _joined(left: str, right: str) -> str | None:
    return left + right if len(left) + len(right) <= MADE_TEXT else None


def _replaced(text: str, old: str, new: str) -> str | None:
    """Replaces texts. The length is computed first, so that a result beyond the limit is never created."""
    if not old:
        return text
    grows = text.count(old) * (len(new) - len(old))
    return text.replace(old, new) if grows <= 0 or len(text) + grows <= MADE_TEXT else None


def _moved(left: Value | None, right: Value | None, compute: Callable[..., Any]) -> Value | None:
    """Adds or subtracts numbers, or timestamps and microseconds: with a timestamp on one side the result is a timestamp, the difference
    of two is a number."""
    if left is None or right is None or not {left.kind, right.kind} <= {N, T}:
        return None
    count = (left.kind is T) + (right.kind is T)
    if compute is arithmetic.subtract:
        kind = T if count == 1 else N
        if left.kind is N and right.kind is T:
            return None
    else:
        kind = T if count else N
        if count == 2:
            return None
    found = compute(*(arithmetic.plain_number(each.plain) for each in (left, right)))
    if found is None or (kind is T and not isinstance(found, int)) or (kind is T and found == INT64_MIN):
        return None
    return Value(kind, found)


def _part(name: str) -> Callable[[int], Any]:
    return lambda moment: _number(moments.date_part(name, moment))


def _case(*parts: Value | None) -> Value | None:
    """Takes condition, value, condition, value, …, and the value if no condition holds."""
    for condition, value in zip(parts[:-1:2], parts[1::2], strict=True):
        if condition is not None and condition.kind is B and condition.plain:
            return value
    return parts[-1]


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[..., Value | None]:
    def compute(left: Value | None, right: Value | None) -> Value | None:
        if left is None or right is None or left.kind is not right.kind or left.kind is L:
            return None
        return Value(B, compare(left.plain, right.plain))

    return compute


def _is_in(elements: Value | None, wanted: Value | None) -> bool:
    assert elements is not None and wanted is not None
    return any(
        isinstance(each, Value) and each.kind is wanted.kind and each.plain == wanted.plain for each in elements.plain
    )


def _list_contains(elements: Value | None, wanted: Value | None) -> Value | None:
    """As with a constant (holding.py): nulls and elements of another kind are skipped."""
    if elements is None or wanted is None or elements.kind is not L or wanted.kind is L:
        return None
    return Value(B, _is_in(elements, wanted))


def scalars_of(elements: Iterable[Any]) -> Mapping[Kind, set[Any]]:
    """Returns the scalars among a list's elements, by kind: 1 is not true. A set for each kind takes half of the time of a set of pairs,
    which are objects that the garbage collector follows."""
    found: defaultdict[Kind, set[Any]] = defaultdict(set)
    for each in elements:
        if isinstance(each, Value) and each.kind is not L:
            found[each.kind].add(each.plain)
    return found


NONE: frozenset[Any] = frozenset()


def _list_has(quantifier: Callable[[Iterable[bool]], bool]) -> Callable[..., Value | None]:
    """Whether a list has any, or all, of the elements of another; nulls among those are passed over, and what is no scalar.
    Both may be long, so the elements are looked up in a set."""

    def compute(elements: Value | None, wanted: Value | None) -> Value | None:
        if elements is None or wanted is None or not elements.kind is wanted.kind is L:
            return None
        present = scalars_of(elements.plain)
        scalars = (each for each in wanted.plain if isinstance(each, Value) and each.kind is not L)
        return Value(B, quantifier(each.plain in present.get(each.kind, NONE) for each in scalars))

    return compute


def _quantified(
    compare: Callable[[Any, Any], bool], quantifier: Callable[[Iterable[bool]], bool]
) -> Callable[..., Value | None]:
    """Returns the function for `value < any(list)`: elements of another kind are skipped."""

    def compute(value: Value | None, elements: Value | None) -> Value | None:
        if value is None or elements is None or value.kind is L or elements.kind is not L:
            return None
        same = (each for each in elements.plain if isinstance(each, Value) and each.kind is value.kind)
        return Value(B, quantifier(compare(value.plain, each.plain) for each in same))

    return compute


COMPARED = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_define("+", "pp", None, lambda left, right: _moved(left, right, arithmetic.add), tolerant=True)
_define("-", "pp", None, lambda left, right: _moved(left, right, arithmetic.subtract), tolerant=True)
_define("*", "nn", N, arithmetic.multiply)
_define("/", "nn", N, arithmetic.divide)
_define("%", "nn", N, arithmetic.remainder)
_define("negative", "n", N, arithmetic.negate)
_define("abs", "n", N, arithmetic.absolute)
_define("floor", "n", N, arithmetic.floor)
_define("ceil", "n", N, arithmetic.ceiling)
_define("round", "nn", N, arithmetic.round_half_away, 1)
_define("least", "a…", None, _least, tolerant=True)
_define("greatest", "a…", None, _greatest, tolerant=True)
_define("coalesce", "a…", None, _coalesce, tolerant=True)
_define("case", "a…", None, _case, tolerant=True)
_define("=", "aa", B, _compared(operator.eq), tolerant=True)
_define("!=", "aa", B, _compared(operator.ne), tolerant=True)
_define("<", "aa", B, _compared(operator.lt), tolerant=True)
_define("<=", "aa", B, _compared(operator.le), tolerant=True)

_define("lower", "s", S, simple_lower)
_define("upper", "s", S, simple_upper)
_define("trim", "s", S, lambda text: text.strip(" "))
_define("ltrim", "s", S, lambda text: text.lstrip(" "))
_define("rtrim", "s", S, lambda text: text.rstrip(" "))
_define("length", "m", N, len)
_define("cardinality", "l", N, len)
_define("list_min", "ls", None, lambda elements, kind=None: _of_elements(elements, kind, _least), 1, tolerant=True)
_define("list_max", "ls", None, lambda elements, kind=None: _of_elements(elements, kind, _greatest), 1, tolerant=True)
_define("list_contains", "la", B, _list_contains, tolerant=True)
_define("list_has_any", "ll", B, _list_has(any), tolerant=True)
_define("list_has_all", "ll", B, _list_has(all), tolerant=True)
for _symbol, _compare in COMPARED.items():
    _define(f"{_symbol} any", "al", B, _quantified(_compare, any), tolerant=True)
    _define(f"{_symbol} all", "al", B, _quantified(_compare, all), tolerant=True)
_define("substr", "snn", S, _substr, 2)
_define("||", "ss", S, _joined)
_define("concat", "s…", S, _concat, tolerant=True)
_define("date_part", "st", N, lambda part, moment: _number(moments.date_part(part, moment)))
_define("date_trunc", "st", T, moments.date_trunc)
_define("add_months", "tn", T, moments.add_months)
_define("to_timestamp", "w", T, moments.to_timestamp)
for _name in (
    *(
        "era",
        "millennium",
        "century",
        "decade",
        "isoyear",
        "year",
        "quarter",
        "month",
        "yearweek",
        "week",
        "day",
        "dayofweek",
        "isodow",
    ),
    *("dayofyear", "hour", "minute", "second", "epoch", "julian"),
):
    _define(_name, "t", N, _part(_name))
FUNCTIONS["now"] = Function("now", (), T, lambda: None, 0, 0)
_define("ip4", "s", N, networks.address_v4)
_define("ip6_upper", "s", N, lambda text: networks.address_half(text, True))
_define("ip6_lower", "s", N, lambda text: networks.address_half(text, False))
_define("replace", "sss", S, _replaced)
_define("starts_with", "ss", B, str.startswith)
_define("ends_with", "ss", B, str.endswith)
_define("contains", "ss", B, operator.contains)
