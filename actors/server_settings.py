"""How a server is set up. Chosen when it is first started, and kept with its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from actors.mailbox_settings import MailboxSettings
from ray_pubsub.errors import SettingError
from ray_pubsub.index.engine_choice import OPTIONS, make_engine
from ray_pubsub.priority.levels import Levels
from ray_pubsub.settings import Limits

__all__ = ["ServerSettings"]

MOST_SHARDS, MOST_COORDINATORS = 1024, 64
MAILBOX_FIELDS = (
    "deadlines", "expired", "capacity", "capacity_bytes", "overflow", "in_flight_limit", "visibility_timeout",
    "delivery_limit", "dead_capacity", "window",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server:

    shards: 2; processes that match. Two cores keep two busy.
    coordinators: 1; processes that publish. The first has the mailboxes with it; with several, these are in a process of their own.
    engine: "auto"; of the shards' indexes, as of MatchIndex.
    options: {}; of the engine. They may also stand by themselves: start(engine="dexin", cache=64).
    limits: Limits(); how large one subscription may be.
    levels: ("low", "normal", "high", "critical"); of priority, lowest first, which is what an event has that no rule matches.
    confirm: True; whether priorities are exact, as of PriorityRules.
    mailbox: {}; a dict, of each mailbox: capacity and capacity_bytes, of what waits, and overflow, what happens beyond ("reject",
        "drop-oldest", "drop-lowest", "dead-letter"); visibility_timeout, after which what was polled and not acknowledged comes again;
        delivery_limit, attempts before it is a dead letter; dead_capacity, dead letters kept; in_flight_limit, polled and not yet
        acknowledged; deadlines in seconds by level, and expired, what happens then ("deliver-late", "drop"); window, ids remembered.
    in_flight: 16; batches that a coordinator works on at once; the next ones wait.
    in_flight_bytes: 512 MB; and their size.
    patience: 2.0; seconds that a batch waits for its turn before OverloadedError.
    timeout: 60.0; seconds that a call waits for a process that restarts before UnavailableError.
    lease: 5.0; seconds for which a coordinator may publish without having heard of the registry. As long a change waits, at most, for
        one that does not answer.
    """

    shards: int = 2
    coordinators: int = 1
    engine: str = "auto"
    options: Mapping[str, int | bool] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    levels: tuple[str, ...] = ("low", "normal", "high", "critical")
    confirm: bool = True
    mailbox: Mapping[str, Any] = field(default_factory=dict)
    in_flight: int = 16
    in_flight_bytes: int = 512 * 2**20
    patience: float = 2.0
    timeout: float = 60.0
    lease: float = 5.0

    def __post_init__(self) -> None:
        _whole("shards", self.shards, MOST_SHARDS)
        _whole("coordinators", self.coordinators, MOST_COORDINATORS)
        _whole("in_flight", self.in_flight, 1024)
        _whole("in_flight_bytes", self.in_flight_bytes, 2**62)
        for name in ("patience", "timeout", "lease"):
            _seconds(name, getattr(self, name))
        for name in ("options", "mailbox"):
            if not isinstance(getattr(self, name), Mapping):
                raise SettingError(name, f"must be a dict, not {getattr(self, name)!r}")
        if not isinstance(self.confirm, bool):
            raise SettingError("confirm", f"must be True or False, not {self.confirm!r}")
        if not isinstance(self.limits, Limits):
            raise SettingError("limits", f"must be a ray_pubsub.Limits, not {type(self.limits).__name__}")
        Levels(self.levels)
        object.__setattr__(self, "levels", tuple(self.levels))
        make_engine(self.engine, self.limits, "inline", dict(self.options))
        unknown = set(self.mailbox) - set(MAILBOX_FIELDS)
        if unknown:
            raise SettingError("mailbox", f"has no {', '.join(sorted(unknown))}; there are {', '.join(MAILBOX_FIELDS)}")
        self.mailbox_settings()

    def mailbox_settings(self) -> MailboxSettings:
        return MailboxSettings(levels=self.levels, **self.mailbox)

    def changed(self, given: Mapping[str, Any]) -> ServerSettings:
        """These settings, but for the given ones, among which an engine's options may stand by themselves (cache=64). Another engine comes
        without the options of the one before. Raises SettingError."""
        known = {each.name for each in fields(self)}
        options = {name: value for name, value in given.items() if name in OPTIONS}
        given = {name: value for name, value in given.items() if name not in OPTIONS}
        if options and isinstance(given.get("options", {}), Mapping):
            given["options"] = {**given.get("options", {}), **options}
        if given.get("engine", self.engine) != self.engine:
            given = {"options": {}, **given}
        for name in given:
            if name not in known:
                raise SettingError(name, f"is no setting of a server; there are {', '.join(sorted(known))}")
        return replace(self, **given)

    def state(self) -> dict[str, Any]:
        """As what msgpack can write."""
        state = asdict(self)
        state["levels"] = list(self.levels)
        return state

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> ServerSettings:
        """What `state` gave, in this release or an earlier one."""
        known = {each.name: state[each.name] for each in fields(cls) if each.name in state}
        return cls(**{**known, "limits": Limits(**known["limits"]), "levels": tuple(known["levels"])})


def _whole(name: str, value: Any, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SettingError(name, f"must be a whole number from 1 to {most:,}, not {value!r}")


def _seconds(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e6:
        raise SettingError(name, f"must be a number of seconds greater than 0, not {value!r}")
