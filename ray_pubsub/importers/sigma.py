"""Imports Sigma detection rules: selections of fields with modifiers, combined by a condition. Texts are compared ignoring case.

pySigma, the format's own library, is not used: it translates rules to the query languages of log systems, while here a rule becomes a
tree of tests with their negations, for which parsing conditions is the smaller part of the work; and it would add a dozen dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from ray_pubsub.errors import MetadataError, MissingExtraError, RuleFormatError
from ray_pubsub.importers.conditions import Condition, all_of, any_of, negated, write
from ray_pubsub.importers.document import checked
from ray_pubsub.importers.lists import Lists
from ray_pubsub.importers.report import ImportedRule, ImportReport, import_rules
from ray_pubsub.importers.sigma_values import FORMAT, Options, Placeholders, field_test, text_test
from ray_pubsub.model.metadata import metadata_of

__all__ = ["from_sigma"]

TOKEN = re.compile(r"\s*(\(|\)|[\w.*-]+|\S)")
KEPT = ("title", "level", "status", "logsource", "author", "date", "references", "falsepositives", "description")
"""The fields of a rule that become its data, the most important first: what exceeds the limit of data is dropped from the end."""
DEEPEST = 50

Rename = Mapping[str, str] | Callable[[str], str]


def from_sigma(
    rules: Any,
    *,
    fields: Rename | None = None,
    keywords: str | None = None,
    lists: bool | Collection[str] = False,
    placeholders: Placeholders | None = None,
) -> ImportReport:
    """Reads rules: YAML with one document or several, or a list of such texts or of rules as dicts. A rule's id is its `id`, or its title;
    its title, level, status, log source and so on are its data, its tags are its tags.

    >>> rule = {"title": "Who am I", "level": "low", "tags": ["attack.discovery"], "detection": {
    ...     "selection": {"Image|endswith": "\\\\whoami.exe"}, "condition": "selection"}}
    >>> from_sigma([rule]).rules[0].expression
    "Image ilike '%\\\\\\\\whoami.exe' escape '\\\\'"

    `fields`: the attribute for a field's name, where they differ. `keywords`: the attribute in which keywords are looked for; without it,
    rules with keywords are rejected, and so are correlations and aggregations. `lists`: fields may be lists, of which one
    element must pass a test, or the names of such fields, as they are called in events. `placeholders`: the values, one or a list, for
    which `%name%` stands where a field has the modifier `expand`."""
    options = Options(Lists.of(lists), placeholders or {})

    def translate(id: Any, rule: Any) -> ImportedRule:
        if isinstance(rule, RuleFormatError):
            raise rule
        checked(rule, FORMAT)
        expression = write(_Rule(rule, fields, keywords, options).condition())
        return ImportedRule(id, expression, *_carried(rule))

    return import_rules(((_id_of(rule, place), rule) for place, rule in enumerate(_rules(rules))), translate, FORMAT)


def _rules(given: Any) -> Iterable[Any]:
    for each in [given] if isinstance(given, str | bytes | Mapping) else given:
        if isinstance(each, str | bytes):
            yield from _documents(each)
        else:
            yield each


def _documents(text: str | bytes) -> Iterable[Any]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtraError("PyYAML, in which Sigma rules are written,", "sigma") from None
    try:
        yield from (document for document in yaml.safe_load_all(text) if document is not None)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield RuleFormatError(FORMAT, f"this is not YAML: {error}")


def _id_of(rule: Any, place: int) -> str | int:
    found = (rule.get("id") or rule.get("title")) if isinstance(rule, Mapping) else None
    return found if isinstance(found, str) else place


def _carried(rule: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    found = {name: _plain(rule[name]) for name in KEPT if rule.get(name) is not None}
    given = rule.get("tags")
    tags = tuple(tag for tag in given if isinstance(tag, str)) if isinstance(given, list) else ()
    while True:
        try:
            metadata_of(found or None)
            break
        except MetadataError:
            found.popitem()
    try:
        metadata_of(None, tags)
    except MetadataError as error:
        raise RuleFormatError(FORMAT, str(error)) from None
    return found or None, tags


def _plain(value: Any) -> Any:
    """Converts to JSON values: YAML has dates."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class _Rule:
    def __init__(self, rule: Any, fields: Rename | None, keywords: str | None, options: Options) -> None:
        if not isinstance(rule, Mapping):
            raise RuleFormatError(FORMAT, f"a rule is a mapping, not {type(rule).__name__}")
        if "correlation" in rule or "action" in rule:
            raise RuleFormatError(FORMAT, "correlations and collections of rules cannot be expressed")
        detection = rule.get("detection")
        if not isinstance(detection, Mapping) or "condition" not in detection:
            raise RuleFormatError(FORMAT, "a rule has a detection with a condition")
        self._detection = {
            str(name): given for name, given in detection.items() if name not in ("condition", "timeframe")
        }
        given = detection["condition"]
        self._conditions = given if isinstance(given, list) else [given]
        self._fields = fields
        self._keywords = keywords
        self._options = options

    def condition(self) -> Condition:
        return any_of(_Condition(str(each), self).read() for each in self._conditions)

    def matching(self, pattern: str) -> list[Condition]:
        """Returns the selections whose names match; `them` means all that do not begin with an underscore."""
        names = [
            name
            for name in self._detection
            if (not name.startswith("_") if pattern == "them" else fnmatchcase(name, pattern))
        ]
        if not names:
            raise RuleFormatError(FORMAT, f"the condition names {pattern!r}, and there is no such selection")
        return [self.selection(name) for name in names]

    def selection(self, name: str) -> Condition:
        if name not in self._detection:
            raise RuleFormatError(FORMAT, f"the condition names {name!r}, and there is no such selection")
        return self._search(name, self._detection[name])

    def _search(self, name: str, given: Any) -> Condition:
        if isinstance(given, Mapping):
            return all_of(self._item(str(key), value) for key, value in given.items())
        if isinstance(given, list) and given:
            return any_of(self._search(name, each) for each in given)
        if given is None or isinstance(given, list):
            raise RuleFormatError(FORMAT, f"the selection {name!r} is empty")
        if self._keywords is None:
            raise RuleFormatError(
                FORMAT, f"{name!r} has keywords, to be looked for in whole events: name an attribute in keywords="
            )
        return self._options.lists.tested(self._keywords, FORMAT, partial(text_test, text=given))

    def _item(self, key: str, value: Any) -> Condition:
        name, *modifiers = key.split("|")
        if not name:
            if self._keywords is None:
                raise RuleFormatError(FORMAT, "keywords are looked for in whole events: name an attribute in keywords=")
            return field_test(self._keywords, ["contains", *modifiers], value, self._options)
        return field_test(self._renamed(name), modifiers, value, self._options)

    def _renamed(self, name: str) -> str:
        if self._fields is None:
            return name
        return self._fields.get(name, name) if isinstance(self._fields, Mapping) else self._fields(name)


class _Condition:
    """Parses `selection and not 1 of filter_*`."""

    def __init__(self, text: str, rule: _Rule) -> None:
        if "|" in text:
            raise RuleFormatError(FORMAT, f"the aggregation {text.partition('|')[2].strip()!r} cannot be expressed")
        self._tokens: list[str] = TOKEN.findall(text)
        self._text, self._rule, self._place, self._depth = text, rule, 0, 0

    def read(self) -> Condition:
        found = self._either()
        if self._next() is not None:
            raise self._unexpected()
        return found

    def _next(self) -> str | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _takes(self, *words: str) -> bool:
        following = self._next()
        if following is None or following.lower() not in words:
            return False
        self._place += 1
        return True

    def _unexpected(self) -> RuleFormatError:
        return RuleFormatError(FORMAT, f"unexpected {self._next() or 'end'!r} in the condition {self._text!r}")

    def _either(self) -> Condition:
        parts = [self._both()]
        while self._takes("or"):
            parts.append(self._both())
        return any_of(parts)

    def _both(self) -> Condition:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return all_of(parts)

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > DEEPEST:
            raise RuleFormatError(FORMAT, f"the condition is nested more than {DEEPEST} times")
        try:
            return self._innermost()
        finally:
            self._depth -= 1

    def _innermost(self) -> Condition:
        if self._takes("not"):
            return negated(self._one())
        if self._takes("("):
            found = self._either()
            if not self._takes(")"):
                raise self._unexpected()
            return found
        word = self._next()
        if word is None or word in (")", "(") or word.lower() in ("and", "or", "of"):
            raise self._unexpected()
        self._place += 1
        if self._takes("of"):
            pattern = self._next()
            if pattern is None or word.lower() not in ("1", "any", "all"):
                raise self._unexpected()
            self._place += 1
            parts = self._rule.matching(pattern)
            return all_of(parts) if word.lower() == "all" else any_of(parts)
        return self._rule.selection(word)
