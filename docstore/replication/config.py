"""The replica set configuration document: values, parsing and defaults.

`config_rules` validates a configuration by itself, `reconfig` the change from one to the next.

Invariants of a `ReplicaSetConfig`:

* 1 to 50 members, at most 7 of them voters, at least one of them electable (rules 21, 23c);
* member ids and hosts are unique; arbiters vote, hold no data and have priority 0 when not electable;
* hidden, delayed and non-voting members have priority 0 (rule 23b);
* a `newly_added` member counts as a non-voter with priority 0 until it has been seen as SECONDARY (rule 19).

Configurations are ordered by (term, version) (rule 21). Difference from MongoDB: `buildIndexes: false` is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.bson import from_python
from docstore.errors import Code, CommandError
from docstore.query.value.values import type_name

DEFAULT_PORT = 27017
CUSTOMIZED_DEFAULTS = 5624102
"""MongoDB's error code for a `getLastErrorDefaults` that differs from the default."""


class ConfigVersion(NamedTuple):
    """Identifies a configuration. A forced one has term -1 until a primary assigns its own."""

    term: int
    version: int

    def newer_than(self, other: ConfigVersion) -> bool:
        """Return True if this one is newer: by term first, or by version alone if either has no term (rule 21)."""
        if self.term == other.term or self.term < 0 or other.term < 0:
            return self.version > other.version
        return self.term > other.term

    def __str__(self) -> str:
        return f"{{version: {self.version}, term: {self.term}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """One member. `votes` and `priority` are as configured; `voter` and `effective_priority` are in effect."""

    id: int
    host: str
    arbiter_only: bool = False
    hidden: bool = False
    priority: float = 1.0
    tags: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: int = 0
    votes: int = 1
    newly_added: bool = False

    @property
    def identity(self) -> tuple[int, str]:
        """(id, host): another host under the same id is another member, with another log."""
        return self.id, self.host

    @property
    def voter(self) -> bool:
        return self.votes == 1 and not self.newly_added

    @property
    def effective_priority(self) -> float:
        return 0.0 if self.newly_added else self.priority

    @property
    def electable(self) -> bool:
        """False for priority 0 and for arbiters, which never run (rule 8)."""
        return self.effective_priority > 0 and not self.arbiter_only

    @property
    def data_bearing(self) -> bool:
        return not self.arbiter_only

    def to_document(self, *, stored: bool = False) -> dict[str, Any]:
        document: dict[str, Any] = {"_id": self.id, "host": self.host, "arbiterOnly": self.arbiter_only}
        if stored and self.newly_added:
            document["newlyAdded"] = True
        document.update(
            buildIndexes=True,
            hidden=self.hidden,
            priority=self.priority,
            tags=dict(self.tags),
            secondaryDelaySecs=Int64(self.delay_seconds),
            votes=self.votes,
        )
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Set-wide timings and switches; the names tell milliseconds from seconds."""

    chaining_allowed: bool = True
    heartbeat_interval_millis: int = 2000
    heartbeat_timeout_secs: int = 10
    election_timeout_millis: int = 10000
    catch_up_timeout_millis: int = -1
    catch_up_takeover_delay_millis: int = 30000
    modes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    replica_set_id: ObjectId | None = None

    @property
    def heartbeat_interval(self) -> float:
        return self.heartbeat_interval_millis / 1000

    @property
    def election_timeout(self) -> float:
        return self.election_timeout_millis / 1000

    @property
    def heartbeat_timeout(self) -> float:
        """Timeout of a heartbeat, capped at the election timeout: a later answer proves nothing."""
        return min(float(self.heartbeat_timeout_secs), self.election_timeout)

    def to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "chainingAllowed": self.chaining_allowed,
            "heartbeatIntervalMillis": self.heartbeat_interval_millis,
            "heartbeatTimeoutSecs": self.heartbeat_timeout_secs,
            "electionTimeoutMillis": self.election_timeout_millis,
            "catchUpTimeoutMillis": self.catch_up_timeout_millis,
            "catchUpTakeoverDelayMillis": self.catch_up_takeover_delay_millis,
            "getLastErrorModes": {name: dict(mode) for name, mode in self.modes.items()},
            "getLastErrorDefaults": {"w": 1, "wtimeout": 0},
        }
        if self.replica_set_id is not None:
            document["replicaSetId"] = self.replica_set_id
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetConfig:
    """A configuration. `term` is -1 after a forced reconfiguration."""

    set_name: str
    version: int
    term: int = -1
    members: tuple[MemberConfig, ...]
    settings: Settings = field(default_factory=Settings)
    journal_default: bool = True
    config_server: bool = False
    voters: tuple[MemberConfig, ...] = field(init=False, repr=False, compare=False)
    majority_votes: int = field(init=False, repr=False, compare=False)
    """Votes that win an election; acknowledgements that commit."""
    writable_voters: int = field(init=False, repr=False, compare=False)
    write_majority: int = field(init=False, repr=False, compare=False)
    """Members that satisfy w: "majority"; arbiters do not count (rule 16)."""

    def __post_init__(self) -> None:
        voters = tuple(member for member in self.members if member.voter)
        majority = len(voters) // 2 + 1
        writable = sum(member.data_bearing for member in voters)
        for name, value in (
            ("voters", voters),
            ("majority_votes", majority),
            ("writable_voters", writable),
            ("write_majority", min(majority, writable)),
        ):
            object.__setattr__(self, name, value)

    @property
    def config_version(self) -> ConfigVersion:
        return ConfigVersion(self.term, self.version)

    @property
    def defaults_to_majority(self) -> bool:
        """True if the implicit write concern is majority.

        False if arbiters leave too few data-bearing voters (rule 16).
        """
        voters = self.voters
        arbiters = sum(member.arbiter_only for member in voters)
        return arbiters == 0 or len(voters) - arbiters > self.majority_votes

    def member(self, member_id: int) -> MemberConfig | None:
        return next((member for member in self.members if member.id == member_id), None)

    def member_at(self, host: str) -> MemberConfig | None:
        return next((member for member in self.members if member.host == host), None)

    def priority_rank(self, member: MemberConfig) -> int:
        """Return the number of members with a higher priority (rule 8)."""
        return sum(other.effective_priority > member.effective_priority for other in self.members)

    def to_document(self, *, stored: bool = False) -> dict[str, Any]:
        """Return the document with all defaults; `stored` includes the private field `newlyAdded`."""
        document: dict[str, Any] = {"_id": self.set_name, "version": self.version, "term": self.term}
        if self.config_server:
            document["configsvr"] = True
        document.update(
            members=[member.to_document(stored=stored) for member in self.members],
            protocolVersion=Int64(1),
            writeConcernMajorityJournalDefault=self.journal_default,
            settings=self.settings.to_document(),
        )
        return document


def is_foreign(ours: ObjectId | None, theirs: ObjectId | None) -> bool:
    """Return True if two `replica_set_id`s are of different sets.

    A member without configuration has None, which matches all.
    """
    return ours is not None and theirs is not None and ours != theirs


def different_sets(ours: ObjectId | None, theirs: ObjectId | None) -> str:
    """Return the error message for two different set ids."""
    return f"replica set IDs do not match, ours: {ours}; remote node's: {theirs}"


def parse_config(document: Mapping[str, Any]) -> ReplicaSetConfig:
    """Parse a configuration and fill in defaults; values are not validated.

    Errors: InvalidReplicaSetConfig (93), which names the field.
    """
    take = _Fields("ReplSetConfig", document)
    set_name = take.required("_id", str)
    version = take.integer("version", 1)
    term = take.integer("term", -1)
    if take.integer("protocolVersion", 1) != 1:
        raise invalid("protocolVersion must be 1")
    config = ReplicaSetConfig(
        set_name=set_name,
        version=version,
        term=term,
        members=tuple(_parse_member(entry) for entry in take.required("members", list)),
        settings=_parse_settings(take.optional("settings", Mapping, {})),
        journal_default=bool(take.optional("writeConcernMajorityJournalDefault", (bool, int, float), True)),
        config_server=take.optional("configsvr", bool, False),
    )
    take.finish()
    return config


def _parse_member(document: object) -> MemberConfig:
    if not isinstance(document, Mapping):
        raise invalid("Expected an object in the array field 'members'")
    take = _Fields("MemberConfig", document)
    flag: tuple[type, ...] = (bool, int, float)
    arbiter = bool(take.optional("arbiterOnly", flag, False))
    if not take.optional("buildIndexes", flag, True):
        raise invalid("members without indexes (buildIndexes: false) are not supported")
    if document.get("newlyAdded", True) is not True:
        raise invalid("Value must be true if specified")
    host: str = take.required("host", str)
    member = MemberConfig(
        id=take.integer("_id"),
        host=f"{host}:{DEFAULT_PORT}" if host and ":" not in host else host,
        arbiter_only=arbiter,
        hidden=bool(take.optional("hidden", flag, False)),
        priority=float(take.optional("priority", (int, float), 0 if arbiter else 1)),
        tags=_parse_tags(take.optional("tags", Mapping, {})),
        delay_seconds=take.integer("secondaryDelaySecs", 0),
        votes=take.integer("votes", 1),
        newly_added=bool(take.optional("newlyAdded", flag, False)),
    )
    take.finish()
    return member


def _parse_tags(document: Mapping[str, Any]) -> dict[str, str]:
    for name, value in document.items():
        if not isinstance(value, str):
            raise invalid(f"tags.{name} must be a string")
    return dict(document)


def _parse_settings(document: Mapping[str, Any]) -> Settings:
    take = _Fields("ReplSetConfigSettings", document)
    defaults = take.optional("getLastErrorDefaults", Mapping, {"w": 1, "wtimeout": 0})
    if defaults.get("w", 1) == 0:
        raise invalid("Default write concern mode must wait for at least 1 member")
    if dict(defaults) != {"w": 1, "wtimeout": 0}:
        raise CommandError(
            CUSTOMIZED_DEFAULTS,
            "Failed to reconfig: Replica set config contains customized getLastErrorDefaults, which has been "
            "deprecated and is now ignored. Use setDefaultRWConcern instead to set a cluster-wide default "
            "writeConcern.",
        )
    modes = take.optional("getLastErrorModes", Mapping, {})
    for name, mode in modes.items():
        if not isinstance(mode, Mapping) or not all(isinstance(n, (int, float)) and n > 0 for n in mode.values()):
            raise invalid(f"settings.getLastErrorModes.{name} must map tags to positive numbers")
    default = Settings()
    settings = Settings(
        chaining_allowed=bool(take.optional("chainingAllowed", (bool, int, float), default.chaining_allowed)),
        heartbeat_interval_millis=take.integer("heartbeatIntervalMillis", default.heartbeat_interval_millis),
        heartbeat_timeout_secs=take.integer("heartbeatTimeoutSecs", default.heartbeat_timeout_secs),
        election_timeout_millis=take.integer("electionTimeoutMillis", default.election_timeout_millis),
        catch_up_timeout_millis=take.integer("catchUpTimeoutMillis", default.catch_up_timeout_millis),
        catch_up_takeover_delay_millis=take.integer(
            "catchUpTakeoverDelayMillis", default.catch_up_takeover_delay_millis
        ),
        modes={name: {tag: int(count) for tag, count in mode.items()} for name, mode in modes.items()},
        replica_set_id=take.optional("replicaSetId", ObjectId, None),
    )
    take.finish()
    return settings


def invalid(message: str) -> CommandError:
    """Return an InvalidReplicaSetConfig error."""
    return CommandError(Code.InvalidReplicaSetConfig, message)


class _Fields:
    """Extracts typed fields from a document and rejects unknown ones."""

    def __init__(self, path: str, document: Mapping[str, Any]) -> None:
        self._path = path
        self._left = dict(document)

    def required(self, name: str, kind: Callable[..., Any] | type) -> Any:
        if name not in self._left:
            raise invalid(f"BSON field '{self._path}.{name}' is missing but a required field")
        return self.optional(name, kind, None)

    def optional(self, name: str, kind: Any, default: Any) -> Any:
        if name not in self._left:
            return default
        value = self._left.pop(name)
        if not isinstance(value, kind):
            raise invalid(f"BSON field '{self._path}.{name}' is the wrong type '{type_name(from_python(value))}'")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        number = self.optional(name, (int, float), default)
        if number is None:
            raise invalid(f"BSON field '{self._path}.{name}' is missing but a required field")
        if isinstance(number, bool) or not float(number).is_integer():
            raise invalid(f"BSON field '{self._path}.{name}' must be a whole number")
        return int(number)

    def finish(self) -> None:
        if self._left:
            raise invalid(f"BSON field '{self._path}.{next(iter(self._left))}' is an unknown field.")
