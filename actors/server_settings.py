"""The settings of a server: given when it is first started, and stored with its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypedDict

from actors.mailboxes.settings import MailboxOverflow, MailboxSettings
from ray_pubsub.errors import SettingError
from ray_pubsub.index.make_engine import make_engine
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.model.arguments import check_flag, check_seconds, check_whole
from ray_pubsub.priority.discretizer import Discretizer, Function, described, restored
from ray_pubsub.priority.levels import Levels
from ray_pubsub.priority.rules import PriorityRules
from ray_pubsub.settings import Limits

__all__ = ["LONGEST", "MailboxOptions", "PriorityOptions", "ServerSettings"]

MOST_SHARDS, MOST_COORDINATORS = 1024, 64
LONGEST = 1e6
"""Seconds. Ray cannot wait for much longer."""


SHORTEST_DEADLINE = 1.0
"""The deadline of the highest level in seconds, unless other deadlines are given; each lower level has ten times as much. By default
nothing is dropped after its deadline: the default deadlines only give the on-time rate a meaning."""


class PriorityOptions(TypedDict, total=False):
    """How priorities are determined, for `start(priority={…})`; PriorityRules explains each option.

    false_positive_rate: of all filters together. signatures: the largest number for the rules of one set of attributes. vectors: the number
    of sets of attributes that have filters. discretizers: how an attribute's values are put into bins, where that is not left to the rules
    (a Function cannot be stored, and is refused). cache: the number of answers that are remembered.
    """

    false_positive_rate: float
    signatures: int
    vectors: int
    discretizers: Mapping[str, Discretizer]
    cache: int


class MailboxOptions(TypedDict, total=False):
    """The settings of each mailbox of a server, for `start(mailbox={…})`.

    capacity, capacity_bytes: how much may wait in a mailbox; overflow: what happens beyond that. visibility_timeout: seconds after which a
    delivery that was polled and not acknowledged is handed out again; delivery_limit: attempts before it becomes a dead letter;
    dead_capacity: the most dead letters kept. in_flight_limit: the most deliveries that are polled and not yet acknowledged. deadlines:
    seconds from publication, by level, None for no deadlines (by default the highest level has 1 s, each lower one ten times as much);
    expired: what happens to a delivery after its deadline. Higher levels go first; with longest_wait a delivery that has waited that many
    seconds goes before all levels, with weights each level has that many deliveries in a round. window: the number of events remembered by
    their ids, and likewise of publications by their idempotency keys; window_bytes: the bytes that each of the two may take.
    """

    capacity: int | None
    capacity_bytes: int | None
    overflow: MailboxOverflow
    visibility_timeout: float
    delivery_limit: int | None
    dead_capacity: int
    in_flight_limit: int
    deadlines: Mapping[str, float] | Sequence[float] | None
    expired: Literal["deliver-late", "drop"]
    longest_wait: float | None
    weights: Mapping[str, int] | Sequence[int] | None
    window: int
    window_bytes: int


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings that `ray_pubsub.start` explains, checked. Raises SettingError."""

    shards: int = 2
    coordinators: int = 1
    engine: str = "auto"
    options: Mapping[str, int | bool] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    ignore_case: bool = False
    levels: tuple[str, ...] = ("low", "normal", "high", "critical")
    confirm: bool = True
    priority: PriorityOptions = field(default_factory=PriorityOptions)
    mailbox: MailboxOptions = field(default_factory=MailboxOptions)
    max_in_flight: int = 16
    max_in_flight_bytes: int = 512 * 2**20
    patience: float = 2.0
    timeout: float = 60.0
    lease: float = 5.0
    reroute_every: float = 60.0
    sockets: bool = True

    def __post_init__(self) -> None:
        check_whole("shards", self.shards, 1, MOST_SHARDS)
        check_whole("coordinators", self.coordinators, 1, MOST_COORDINATORS)
        check_whole("max_in_flight", self.max_in_flight, 1, 1024)
        check_whole("max_in_flight_bytes", self.max_in_flight_bytes, 1, 2**62)
        for name in ("patience", "timeout", "lease"):
            check_seconds(name, getattr(self, name), zero=False, most=LONGEST)
        check_seconds("reroute_every", self.reroute_every, most=LONGEST)
        check_flag("confirm", self.confirm)
        check_flag("ignore_case", self.ignore_case)
        check_flag("sockets", self.sockets)
        for name in ("options", "mailbox", "priority"):
            if not isinstance(getattr(self, name), Mapping):
                raise SettingError(name, f"must be a dict, not {getattr(self, name)!r}")
        if not isinstance(self.limits, Limits):
            raise SettingError("limits", f"must be a ray_pubsub.Limits, not {type(self.limits).__name__}")
        Levels(self.levels)
        object.__setattr__(self, "levels", tuple(self.levels))
        make_engine(self.engine, self.limits, "inline", dict(self.options))
        for name, kind in (("mailbox", MailboxOptions), ("priority", PriorityOptions)):
            known = kind.__annotations__
            unknown = set(getattr(self, name)) - set(known)
            if unknown:
                raise SettingError(name, f"has no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        self.mailbox_settings()
        self.priority_rules()
        for attribute, discretizer in self.priority.get("discretizers", {}).items():
            if isinstance(discretizer, Function):
                reason = (
                    f"{attribute!r} has a Function, which cannot be stored; give Bins, Steps, Categories or Quantiles"
                )
                raise SettingError("priority", reason)

    def mailbox_settings(self) -> MailboxSettings:
        count = len(self.levels)
        deadlines = {name: SHORTEST_DEADLINE * 10.0 ** (count - 1 - place) for place, name in enumerate(self.levels)}
        options: MailboxOptions = {"deadlines": deadlines, **self.mailbox}
        return MailboxSettings(levels=self.levels, **options)

    def priority_rules(self) -> PriorityRules:
        """Returns priority rules with these settings, without any rule yet."""
        return PriorityRules(self.levels, confirm=self.confirm, limits=self.limits, **self.priority)

    def shapes(self) -> ShapeCache:
        """Returns a cache that parses subscriptions as this server does."""
        return ShapeCache(self.limits, ignore_case=self.ignore_case)

    def changed(self, given: Mapping[str, Any]) -> ServerSettings:
        """Returns these settings with the given ones changed. Another engine does not keep the options of the previous one."""
        if given.get("engine", self.engine) != self.engine:
            given = {"options": {}, **given}
        known = [each.name for each in fields(self)]
        for name in given:
            if name not in known:
                raise SettingError(name, f"is no setting of a server; there are {', '.join(known)}")
        return replace(self, **given)

    def state(self) -> dict[str, Any]:
        """Returns the settings in a form that msgpack can write."""
        state = asdict(self)
        state["levels"] = list(self.levels)
        state["priority"] = dict(self.priority)
        if "discretizers" in self.priority:
            given = self.priority["discretizers"].items()
            state["priority"]["discretizers"] = {attribute: described(each) for attribute, each in given}
        return state

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> ServerSettings:
        """Reads what `state` returned, in this release or an earlier one."""
        known = {each.name: state[each.name] for each in fields(cls) if each.name in state}
        known |= {"limits": Limits(**known["limits"]), "levels": tuple(known["levels"])}
        priority = dict(known.get("priority", {}))
        if "discretizers" in priority:
            stored = priority["discretizers"].items()
            priority["discretizers"] = {attribute: restored(each) for attribute, each in stored}
        return cls(**{**known, "priority": priority})
