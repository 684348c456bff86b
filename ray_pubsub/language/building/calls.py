"""Builds terms from their parts and checks what can be checked without an event: that functions exist, the number and kinds of arguments,
limits. A term of constants only is evaluated at once and becomes a constant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from ray_pubsub.errors import ExpressionLimitError, ExpressionSyntaxError, ExpressionTypeError, counted, printable
from ray_pubsub.language import words
from ray_pubsub.language.building import predicates
from ray_pubsub.language.building.constants import BrokenConstant, check_readable, is_broken
from ray_pubsub.language.building.holding_calls import HOLDING, compares_attributes, holding
from ray_pubsub.language.building.intervals import is_interval, moved_by
from ray_pubsub.language.building.quantified import QUANTIFIERS, check_has_value
from ray_pubsub.language.building.term_kinds import CHOOSING, ELEMENT_KINDS, is_sum, kind_of, of_a_sum
from ray_pubsub.language.functions.intervals import Interval
from ray_pubsub.language.functions.moments import date_parts, truncated_units
from ray_pubsub.language.functions.table import FUNCTIONS, SYNONYMS, Function
from ray_pubsub.language.printer import write_term
from ray_pubsub.language.terms import Call, Condition, Listed, Term, as_value, measured
from ray_pubsub.language.tree import Operand
from ray_pubsub.language.truth import value_of_term
from ray_pubsub.model.values import INT64_MIN, Kind
from ray_pubsub.settings import Limits

__all__ = ["called", "case", "compared", "listed", "moment", "operation", "signed"]

NULL = Operand(None, None)
WITHOUT_ARGUMENTS = {"now"}
PATTERNS = {"starts_with": "{}%", "ends_with": "%{}", "contains": "%{}%"}
"""Functions of a text and a constant that are equivalent to a `like` pattern, which an index can look up."""


def called(text: str, position: int, name: str, arguments: list[Any], limits: Limits) -> Any:
    """Builds `name(arguments)`: a Term, or a condition with its depth. `position`: of the name in the text."""
    function = name.lower()
    function = SYNONYMS.get(function, function)
    if function == "if":
        return _if(name, arguments, limits)
    if function in TODAY and not arguments:
        return moment("today", limits)
    if function in HOLDING:
        if compares_attributes(function, arguments):
            return operation(function, [as_term(argument) for argument in arguments], limits)
        return holding(function, arguments, limits)
    terms = [as_term(argument) for argument in arguments]
    if function in SPELLED_LISTS:
        return listed(terms, limits)
    if function == MOVE:
        return _date_add(text, terms, limits)
    if function in QUANTIFIERS:
        if len(terms) != 1:
            raise ExpressionTypeError(f"{name}(…)", f"{name} takes one list, not {counted(len(terms), 'argument')}")
        check_has_value(terms[0])
        return Call(function, tuple(terms))
    if function in PATTERNS and len(terms) == 2 and isinstance(terms[1], Operand) and terms[1].kind is Kind.STRING:
        _check_parts(function, terms)
        template = PATTERNS[function]
        pattern = predicates.changed(terms[1], lambda given: template.format(_escaped(given)))
        return 1, predicates.like(terms[0], pattern, Operand(Kind.STRING, ESCAPE), False, limits)
    is_sign = not function[0].isalpha() and name.lower() not in SYNONYMS  # mod(a, b) is a % b
    if function not in FUNCTIONS or is_sign or function in HIDDEN:
        raise _unknown(text, position, name)
    return operation(function, terms, limits)


def as_term(value: Any) -> Term:
    """Converts an argument to a term: a condition becomes a value."""
    return as_value(value[1]) if isinstance(value, tuple) else value


ESCAPE = "\\"
TODAY = {"current_date", "today"}
SPELLED_LISTS = {"array", "list_value"}
"""Spark's and DuckDB's other ways to write `['a', 'b']`."""
MOVE = "date_add"
"""DuckDB's function of a timestamp and an interval. In Spark it takes a number of days, so a number is refused: it would be
microseconds."""
HIDDEN = {"negative", "case"}
"""Functions that have a syntax of their own."""


def _escaped(text: str) -> str:
    return text.replace(ESCAPE, ESCAPE * 2).replace("%", ESCAPE + "%").replace("_", ESCAPE + "_")


def operation(function: str, arguments: list[Term], limits: Limits) -> Term:
    """Returns a function or operator of the table, checked; a constant if all it is applied to is constant."""
    if function in ("+", "-"):
        moved = moved_by(function, arguments)
        if moved is not None:
            return _moved(*moved, limits)
    _check_parts(function, arguments)
    known = FUNCTIONS[function]
    if len(arguments) < known.least or (known.most is not None and len(arguments) > known.most):
        reason = f"{function} takes {_wanted(known)}, not {len(arguments)}"
        raise ExpressionTypeError(_shown(function, arguments), reason)
    for place, argument in enumerate(arguments):
        kind = kind_of(argument)
        if kind is not None and kind not in known.takes_at(place):
            takes = " or ".join(f"a {each}" for each in sorted(known.takes_at(place)))
            raise ExpressionTypeError(_shown(function, arguments), f"{function} takes {takes}, not a {kind}")
        never_a_sum = not known.takes_at(place) & {Kind.NUMBER, Kind.TIMESTAMP}
        if never_a_sum and is_sum(argument):
            wanted = " or ".join(f"{each}" for each in sorted(known.takes_at(place)))
            raise ExpressionTypeError(_shown(function, arguments), of_a_sum(argument, wanted))
    if function in UNITS:
        _check_unit(function, arguments)
    if function in ("list_min", "list_max") and len(arguments) == 2:
        _check_kind(function, arguments)
    if function in CHOOSING:
        kinds = {argument.kind for argument in arguments if isinstance(argument, Operand)} - {None}
        if len(kinds) > 1:
            raise ExpressionTypeError(_shown(function, arguments), predicates.mixed(kinds))
    return _limited(Call(function, tuple(arguments)), limits)


def _moved(subject: Term, by: Interval, limits: Limits) -> Term:
    """Builds a timestamp plus an interval with months. As in DuckDB the months are added first, then what has a fixed length."""
    found = operation("add_months", [subject, Operand(Kind.NUMBER, by.months)], limits)
    return operation("+", [found, Operand(Kind.NUMBER, by.microseconds)], limits) if by.microseconds else found


def _wanted(known: Function) -> str:
    """Returns how many arguments a function takes, in words."""
    if known.most is None:
        return f"at least {counted(known.least, 'argument')}"
    least = "" if known.least == known.most else f"{known.least} or "
    return least + counted(known.most, "argument")


def _shown(function: str, arguments: list[Term]) -> str:
    if function == "+" and len(arguments) == 1:
        return f"+{write_term(arguments[0])}"
    return write_term(Call(function, tuple(arguments)))


UNITS = {"date_part": ("part", date_parts), "date_trunc": ("unit", truncated_units)}
"""Functions whose first argument is a name: what the name is called in errors, and the valid names."""


def _check_unit(function: str, arguments: list[Term]) -> None:
    unit = arguments[0]
    if not isinstance(unit, Operand) or unit.kind is None:
        return
    noun, names = UNITS[function]
    if unit.plain.lower() in names():
        return
    close = get_close_matches(unit.plain.lower(), names(), n=1, cutoff=0.7)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names(False))}"
    reason = f"{function} knows no {noun} '{printable(unit.plain[:SHOWN_UNIT])}'; {hint}"
    raise ExpressionTypeError(_shown(function, arguments), reason)


SHOWN_UNIT = 40


def _check_kind(function: str, arguments: list[Term]) -> None:
    kind = arguments[1]
    if not isinstance(kind, Operand) or kind.plain not in ELEMENT_KINDS:
        known = ", ".join(f"'{each}'" for each in ELEMENT_KINDS)
        reason = f"the second argument of {function} is a kind of elements: {known}"
        raise ExpressionTypeError(_shown(function, arguments), reason)


def _limited(term: Call, limits: Limits) -> Term:
    size, depth = measured(term)
    for argument in term.arguments:
        if isinstance(argument, Condition):
            predicates.check_leaves(argument.tree, limits)
    if size > limits.term_size:
        raise ExpressionLimitError("term_size", limits.term_size, size)
    if depth > limits.term_depth:
        raise ExpressionLimitError("term_depth", limits.term_depth, depth)
    if all(isinstance(argument, Operand) for argument in term.arguments) and term.function not in WITHOUT_ARGUMENTS:
        value = value_of_term(term, {})
        return NULL if value is None else Operand(value.kind, value.plain)
    return term


def _check_parts(function: str, arguments: list[Term]) -> None:
    for argument in arguments:
        if is_broken(argument):
            check_readable(argument, _shown(function, arguments))
        check_has_value(argument)


def signed(sign: str, value: Term, limits: Limits) -> Term:
    """Builds `-value`. A number with a sign is one constant, because the least integer has no positive counterpart."""
    if isinstance(value, Operand) and isinstance(value.plain, BrokenConstant) and value.plain.text[0] in "0123456789.":
        try:
            return Operand(Kind.NUMBER, words.read_number(value.plain.text, sign == "-"))
        except words.BadConstant as problem:
            return Operand(Kind.NUMBER, BrokenConstant(f"{sign}{value.plain.text}", str(problem)), value.place)
    if isinstance(value, Operand) and value.kind is Kind.NUMBER and not isinstance(value.plain, BrokenConstant):
        if sign == "+":
            return value
        if value.place >= 0 and value.made is None and value.plain != INT64_MIN:
            return Operand(Kind.NUMBER, -value.plain, value.place)
    if sign == "+":
        _check_parts(sign, [value])
        kind = kind_of(value)
        if kind not in (None, Kind.NUMBER):
            raise ExpressionTypeError(_shown(sign, [value]), f"+ takes a number, not a {kind}")
        return value
    return operation("negative", [value], limits)


def case(parts: list[Any], limits: Limits) -> Term:
    """Builds `case when … then … else … end` from alternating conditions and values, then the `else` value if there is one."""
    if len(parts) % 2 == 0:
        parts = [*parts, NULL]
    terms: list[Term] = []
    for place, part in enumerate(parts):
        is_condition = place % 2 == 0 and place < len(parts) - 1
        terms.append(
            Condition(part[1] if isinstance(part, tuple) else predicates.bare(part)) if is_condition else as_term(part)
        )
    _check_parts("case", terms)
    return _limited(Call("case", tuple(terms)), limits)


def compared(subject: Term, parts: list[Any], limits: Limits) -> list[Any]:
    """Converts `case subject when value then …` to the parts of `case when subject = value then …`."""
    _check_parts("case", [subject])
    found: list[Any] = []
    for place, part in enumerate(parts):
        if place % 2 or place == len(parts) - 1:
            found.append(part)
            continue
        _check_parts("case", [as_term(part)])
        found.append((1, predicates.comparison(subject, "=", as_term(part), limits)))
    return found


def moment(name: str, limits: Limits) -> Term:
    """Builds `current_timestamp` and `current_date`, which are written without parentheses."""
    now = operation("now", [], limits)
    return now if name == "now" else operation("date_trunc", [Operand(Kind.STRING, "day"), now], limits)


def _date_add(text: str, terms: list[Term], limits: Limits) -> Term:
    if len(terms) != 2 or not is_interval(text, terms[1]):
        reason = f"{MOVE} takes a timestamp and an interval: {MOVE}(t, interval '1 day')"
        raise ExpressionTypeError(_shown(MOVE, terms), reason)
    return operation("+", terms, limits)


def _if(name: str, arguments: list[Any], limits: Limits) -> Term:
    if len(arguments) not in (2, 3):
        raise ExpressionTypeError(
            f"{name}(…)", f"if takes a condition and one or two values, not {counted(len(arguments), 'argument')}"
        )
    return case(arguments, limits)


def listed(members: list[Term], limits: Limits) -> Listed:
    """Builds `['a', 'b']`."""
    if len(members) > limits.set_size:
        raise ExpressionLimitError("set_size", limits.set_size, len(members))
    constants = [member for member in members if isinstance(member, Operand)]
    for member in members:
        if is_broken(member):
            check_readable(member, f"[{', '.join(map(write_term, members))}]")
        if not isinstance(member, Operand):
            raise ExpressionTypeError(f"[… {write_term(member)} …]", "a list that is written out has only constants")
    return Listed(tuple(constants))


EVENTS = "events are matched one by one, so there are no aggregates over several"
DIFFERENCE = "subtract timestamps: closed - opened < interval '1 hour'"
INSTEAD = {
    **dict.fromkeys(("regexp_matches", "regexp_like", "regexp_full_match", "regexp"), "write name regexp 'pattern'"),
    **dict.fromkeys(("like", "ilike"), "write name like 'pattern%'"),
    **dict.fromkeys(("datediff", "date_diff", "timestampdiff", "age"), DIFFERENCE),
    **dict.fromkeys(("count", "sum", "avg", "min", "max"), EVENTS),
    **dict.fromkeys(
        ("cast", "try_cast"), "a value keeps the kind that it has in the event; to_timestamp(x) reads texts and seconds"
    ),
    **dict.fromkeys(("strptime", "try_strptime", "timestamp_seconds", "make_timestamp"), "write to_timestamp(x)"),
    **dict.fromkeys(
        ("any_match", "list_filter", "filter", "array_filter"), "write exists(list, condition on an element)"
    ),
    **dict.fromkeys(("instr", "position", "strpos", "locate"), "write contains(text, part)"),
}
"""Functions of other systems, and what is written instead."""


def _unknown(text: str, position: int, name: str) -> ExpressionSyntaxError:
    names = [each for each in FUNCTIONS if each[0].isalpha() and each not in HIDDEN]
    every = sorted({*names, *HOLDING, *SYNONYMS, *QUANTIFIERS, *TODAY, *SPELLED_LISTS, MOVE, "if"})
    close = get_close_matches(name.lower(), every, n=1, cutoff=0.7) if len(name) > 2 else []
    hint = f"did you mean {close[0]}?" if close else "docs/language.md lists the functions"
    hint = INSTEAD.get(name.lower(), hint)
    return ExpressionSyntaxError(text, position, name, (), f"there is no function {name}", hint)
