"""Imports queries of Elasticsearch's percolator: bool, term, range and similar queries, without analysed text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import FALSE, TRUE, Condition, all_of, any_of, at_least, negated, number_of, write
from ray_pubsub.importers.date_math import DateReading, bound_of, bounds_of, is_date_math, looks_like_a_date
from ray_pubsub.importers.document import read_json
from ray_pubsub.importers.field import Field, constant, decided, elements, literal_pattern
from ray_pubsub.importers.geo_queries import in_box, in_polygon, within_distance
from ray_pubsub.importers.lists import Lists
from ray_pubsub.importers.lucene_regexps import translated
from ray_pubsub.importers.minimum_match import least_of
from ray_pubsub.importers.number_texts import number_in, other_forms
from ray_pubsub.importers.report import ImportedRule, ImportReport, import_rules, numbered
from ray_pubsub.language.parser import parse
from ray_pubsub.language.truth import truth

__all__ = ["from_elasticsearch"]

FORMAT = "Elasticsearch"
BOUNDS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
IGNORED = {"boost", "_name"}
"""Parameters that change scores, but not what matches."""
OLDER = {"from", "to", "include_lower", "include_upper"}
"""How the bounds of ranges were written before."""
MOST_TERMS = 100


def from_elasticsearch(
    queries: Any,
    *,
    timestamps: Collection[str] = (),
    ips: Collection[str] = (),
    lists: bool | Collection[str] = False,
    fields: Collection[str] = (),
) -> ImportReport:
    """Reads queries: a dict of ids and queries, or a list of queries, each a dict or JSON, with or without "query" around it.

    >>> query = {"bool": {"filter": [{"term": {"brand": "acme"}}, {"range": {"price": {"lt": 9}}}]}}
    >>> from_elasticsearch({"q1": query}).rules[0].expression
    "brand = 'acme' and price < 9"

    Understands bool with minimum_should_match, term, terms, terms_set, range, exists, prefix, wildcard, regexp, nested, constant_score,
    dis_max, boosting, match_all, match_none, geo_distance, geo_bounding_box and geo_polygon, on fields that are not analysed.
    `timestamps`: fields that hold points in time, which are compared as such; there "now-1d/d" may stand. `ips`: fields that hold
    addresses, for which a term may be a network. A place is an object of lat and lon in the event. `lists`: fields may have several
    values, of which one must match, or the names of such fields; in a list of objects, as in an index, every object's values are the
    field's. `fields`: the names of a mapping's fields (`item.price`); `exists` of an object asks whether it has one of them, and so does
    a `nested` query that only says what its object has not."""
    mapping = _Mapping(frozenset(timestamps), frozenset(ips), tuple(sorted(fields)))
    reader = _Reader(mapping, Lists.of(lists))

    def translate(id: Any, query: Any) -> ImportedRule:
        query = read_json(query, FORMAT)
        if isinstance(query, Mapping) and "query" in query:
            query = query["query"]
        return ImportedRule(id, write(reader.query(query)))

    return import_rules(numbered(queries, FORMAT), translate, FORMAT)


def _single(query: Any) -> tuple[str, Any]:
    if not isinstance(query, Mapping) or len(query) != 1:
        raise RuleFormatError(FORMAT, f"a query is an object with one name, not {query!r}")
    ((name, body),) = query.items()
    return name, body


class _Mapping(NamedTuple):
    """What a mapping says about fields."""

    timestamps: frozenset[str]
    ips: frozenset[str]
    fields: tuple[str, ...]


class _Reader:
    def __init__(self, mapping: _Mapping, lists: Lists, prefix: str = "") -> None:
        """`prefix`: of the nested objects whose fields are read; their conditions name fields within them."""
        self._mapping, self._lists, self._prefix = mapping, lists, prefix
        self._asked: list[str] = []

    def query(self, query: Any) -> Condition:
        name, body = _single(query)
        if name not in QUERIES:
            analysed = name.startswith(("match", "multi_match", "query_string", "simple_query", "intervals"))
            why = "searches analysed text" if analysed else "is not known"
            raise RuleFormatError(FORMAT, f"the query {name!r} {why}; it cannot be expressed")
        return QUERIES[name](self, body)

    def _match_all(self, body: Any) -> Condition:
        return TRUE

    def _match_none(self, body: Any) -> Condition:
        return FALSE

    def _constant_score(self, body: Any) -> Condition:
        if not isinstance(body, Mapping) or "filter" not in body:
            raise RuleFormatError(FORMAT, "constant_score has a filter")
        return self.query(body["filter"])

    def _dis_max(self, body: Any) -> Condition:
        queries = body.get("queries") if isinstance(body, Mapping) else None
        if not isinstance(queries, list) or not queries:
            raise RuleFormatError(FORMAT, "dis_max has a list of queries")
        return any_of(map(self.query, queries))

    def _boosting(self, body: Any) -> Condition:
        if not isinstance(body, Mapping) or "positive" not in body:
            raise RuleFormatError(FORMAT, "boosting has a positive query")
        return self.query(body["positive"])

    def _bool(self, body: Any) -> Condition:
        if not isinstance(body, Mapping):
            raise RuleFormatError(FORMAT, f"bool has clauses, not {body!r}")
        known = {"must", "filter", "should", "must_not", "minimum_should_match"}
        if body.get("adjust_pure_negative") is True:  # the default, which queries that were stored spell out
            known.add("adjust_pure_negative")
        unknown = set(body) - known - IGNORED
        if unknown:
            raise RuleFormatError(FORMAT, f"bool has no {', '.join(sorted(unknown))}")
        clauses = {name: self._clauses(body.get(name)) for name in ("must", "filter", "should", "must_not")}
        needed = clauses["must"] + clauses["filter"]
        parts = [*needed, *map(negated, clauses["must_not"])]
        should = clauses["should"]
        if should:
            # If nothing else is needed, one clause must match even where minimum_should_match is 0.
            default = 0 if needed else 1
            least = least_of(body.get("minimum_should_match", default), len(should), FORMAT)
            parts.append(at_least(max(least, default), should))
        return all_of(part for part in parts if part != TRUE)

    def _clauses(self, given: Any) -> list[Condition]:
        if given is None:
            return []
        return [self.query(each) for each in (given if isinstance(given, list) else [given])]

    def _term(self, body: Any) -> Condition:
        name, given = self._named(body)
        value, fold = self._value(given)
        if fold:
            text = _text("term", name, value)
            return self._tested(name, lambda field: field.among_folded([text]))
        return self._equal(name, [value])

    def _terms(self, body: Any) -> Condition:
        name, given = self._named(body)
        if not isinstance(given, list):
            raise RuleFormatError(FORMAT, f"terms of {name} are a list; a lookup in another index cannot be expressed")
        return self._equal(name, given)

    def _equal(self, name: str, values: list[Any]) -> Condition:
        if name in self._mapping.timestamps and values:
            spans = [bounds_of(value, FORMAT, DateReading()) for value in values]
            return any_of(self._tested(name, partial(Field.between, bounds=span)) for span in spans)
        if name in self._mapping.ips and values:
            return self._tested(name, lambda field: field.in_network(values))
        # Whether the mapping has numbers or keywords, 404 and "404" are the same there, and so are true and "true".
        same = [each for value in values for each in (value, *other_forms(value))]
        return self._tested(name, lambda field: field.among(same))

    def _terms_set(self, body: Any) -> Condition:
        """Of a list of terms, at least the number that is given, or that another field holds, must match."""
        name, given = self._named(body)
        terms = given.get("terms") if isinstance(given, Mapping) else None
        if not isinstance(terms, list) or not 0 < len(terms) <= MOST_TERMS:
            raise RuleFormatError(FORMAT, f"terms_set of {name} has a list of terms, at most {MOST_TERMS}")
        wanted = {each: given[each] for each in given if each != "terms" and each not in IGNORED}
        parts = [self._equal(name, [term]) for term in terms]
        match wanted:
            case {"minimum_should_match": least} if len(wanted) == 1:
                return at_least(least_of(least, len(parts), FORMAT), parts)
            case {"minimum_should_match_field": str(other)} if len(wanted) == 1:
                return decided([f"{number_of(parts)} >= {Field(self._inner(other), FORMAT).text}"])
        raise RuleFormatError(FORMAT, f"terms_set of {name}: {wanted!r} cannot be expressed")

    def _range(self, body: Any) -> Condition:
        name, given = self._named(body)
        if not isinstance(given, Mapping):
            raise RuleFormatError(FORMAT, f"range of {name} has bounds, not {given!r}")
        is_date = name in self._mapping.timestamps
        unknown = set(given) - set(BOUNDS) - OLDER - IGNORED - ({"time_zone", "format"} if is_date else set())
        if unknown or name in self._mapping.ips:
            what = ", ".join(sorted(map(str, unknown))) or "addresses"
            raise RuleFormatError(FORMAT, f"range of {name}: {what} cannot be expressed")
        bounds = [(BOUNDS[each], given[each]) for each in given if each in BOUNDS and given[each] is not None]
        for end, closed, signs in (("from", "include_lower", (">", ">=")), ("to", "include_upper", ("<", "<="))):
            if given.get(end) is not None:
                bounds.append((signs[bool(given.get(closed, True))], given[end]))
        for _, value in bounds:
            constant(value, FORMAT)
            if not is_date and (is_date_math(value) or looks_like_a_date(value)):
                raise RuleFormatError(FORMAT, f"range of {name}: {value!r} is a date; name the field in timestamps=")
        if is_date:
            reading = DateReading.of(given, FORMAT)
            bounds = [bound_of(operator, value, FORMAT, reading) for operator, value in bounds]
        if not bounds:
            return self._tested(name, lambda field: field.present())
        numbers = [(operator, number_in(value)) for operator, value in bounds]
        if any(isinstance(value, str) for _, value in bounds) and None not in (value for _, value in numbers):
            # A mapping decides whether '10' is a number; values that are numbers are compared as such, texts as texts.
            texts = [(operator, str(value)) for operator, value in bounds]
            return any_of(self._tested(name, partial(Field.between, bounds=each)) for each in (numbers, texts))
        return self._tested(name, lambda field: field.between(bounds))

    def _geo_distance(self, body: Any) -> Condition:
        return self._tested(*within_distance(body, FORMAT))

    def _geo_bounding_box(self, body: Any) -> Condition:
        return self._tested(*in_box(body, FORMAT))

    def _geo_polygon(self, body: Any) -> Condition:
        return self._tested(*in_polygon(body, FORMAT))

    def _exists(self, body: Any) -> Condition:
        if not isinstance(body, Mapping) or not isinstance(body.get("field"), str):
            raise RuleFormatError(FORMAT, f"exists names a field, not {body!r}")
        return self._present([body["field"], *self._fields_of(body["field"])])

    def _present(self, names: Iterable[str]) -> Condition:
        return any_of(self._tested(name, lambda field: field.present(objects=True)) for name in names)

    def _fields_of(self, path: str) -> list[str]:
        """Returns the fields of an object that the mapping names."""
        return [name for name in self._mapping.fields if name.startswith(f"{path}.")]

    def _starting(self, body: Any) -> Condition:
        name, given = self._named(body)
        value, fold = self._value(given)
        pattern = literal_pattern(_text("prefix", name, value)) + "%"
        return self._tested(name, lambda field: field.like(pattern, fold=fold))

    def _wildcard(self, body: Any) -> Condition:
        name, given = self._named(body)
        value, fold = self._value(given, "wildcard")
        pattern = re.sub(r"\\(.)|(\*)|(\?)|(.)", _wildcard_part, _text("wildcard", name, value), flags=re.DOTALL)
        return self._tested(name, lambda field: field.like(pattern, fold=fold))

    def _regexp(self, body: Any) -> Condition:
        name, given = self._named(body)
        value, fold = self._value(given)
        pattern = _text("regexp", name, value)
        written = translated(pattern, fold, f"regexp of {name}", FORMAT)
        return self._tested(name, lambda field: field.matching(f"(?{'i' if fold else ''}s)^(?:{written})$"))

    def _nested(self, body: Any) -> Condition:
        if not isinstance(body, Mapping) or not isinstance(body.get("path"), str) or "query" not in body:
            raise RuleFormatError(FORMAT, "nested has a path and a query")
        path = body["path"]
        if not path.startswith(self._prefix):
            raise RuleFormatError(FORMAT, f"nested: the path {path!r} is not within {self._prefix!r}")
        inner = _Reader(self._mapping, self._lists, f"{path}.").query(body["query"])
        return any_of(
            [self._tested(path, lambda field: elements(field.name, inner)), self._only_object(path, body["query"])]
        )

    def _only_object(self, path: str, query: Any) -> Condition:
        """Tests an object that is no list, as if it were the only element of one. A query that also holds without the object needs one of
        its fields."""
        reader = _Reader(self._mapping, self._lists.without(path), self._prefix)
        found = reader.query(query)
        if truth(parse(write(found)), {}) is not True:
            return found
        known = dict.fromkeys([*reader._asked, *self._fields_of(path)])
        return all_of([reader._present(name for name in known if name.startswith(f"{path}.")), found])

    def _tested(self, name: str, test: Callable[[Field], Condition]) -> Condition:
        """Returns the test of a field, wherever it may be."""
        self._asked.append(name)
        return self._lists.tested(self._inner(name), FORMAT, test, outer=self._prefix)

    def _inner(self, name: str) -> str:
        """Returns the name of a field within the nested objects that are read."""
        if not name.startswith(self._prefix):
            raise RuleFormatError(FORMAT, f"the field {name!r} is not within the nested {self._prefix.rstrip('.')!r}")
        return name.removeprefix(self._prefix)

    def _named(self, body: Any) -> tuple[str, Any]:
        """Returns the field, and the parameters for it."""
        if not isinstance(body, Mapping):
            raise RuleFormatError(FORMAT, f"a query names a field, not {body!r}")
        return _single({name: given for name, given in body.items() if name not in IGNORED})

    def _value(self, given: Any, other: str = "value") -> tuple[Any, bool]:
        """Returns a value, given alone or in an object beside its options, and whether case is ignored."""
        if not isinstance(given, Mapping):
            return given, False
        known = {"value", other, "case_insensitive", "rewrite", "flags"} | IGNORED
        if set(given) - known or given.get("flags", "NONE") not in ("NONE", "ALL"):
            raise RuleFormatError(FORMAT, f"options that cannot be expressed: {dict(given)!r}")
        return given.get("value", given.get(other)), bool(given.get("case_insensitive", False))


QUERIES = {
    "bool": _Reader._bool,
    "term": _Reader._term,
    "terms": _Reader._terms,
    "range": _Reader._range,
    "exists": _Reader._exists,
    "prefix": _Reader._starting,
    "wildcard": _Reader._wildcard,
    "regexp": _Reader._regexp,
    "nested": _Reader._nested,
    "geo_distance": _Reader._geo_distance,
    "geo_bounding_box": _Reader._geo_bounding_box,
    "geo_polygon": _Reader._geo_polygon,
    "dis_max": _Reader._dis_max,
    "boosting": _Reader._boosting,
    "terms_set": _Reader._terms_set,
    "constant_score": _Reader._constant_score,
    "match_all": _Reader._match_all,
    "match_none": _Reader._match_none,
}


def _text(what: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise RuleFormatError(FORMAT, f"{what} of {name} is a text, not {value!r}")
    return value


def _wildcard_part(found: re.Match[str]) -> str:
    escaped, star, question, other = found.groups()
    return "%" if star else "_" if question else literal_pattern(escaped or other)
