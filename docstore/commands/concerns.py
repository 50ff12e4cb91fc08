"""Write concern, read concern and read preference: their values, and parsers for command fields.

Codes follow MongoDB 6.0. Parsed values are cached, since clients repeat them. A node decides elsewhere if it can
satisfy a concern.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from bson.timestamp import Timestamp

from docstore.bson import elements
from docstore.bson.walk import ARRAY, BOOL, NULL, OBJECT, STRING, TIMESTAMP
from docstore.commands.values import NUMBERS, integer_of, text_of, truth_of, type_name, value_of, wrong_type
from docstore.errors import Code, CommandError
from docstore.optime import pack_timestamp
from docstore.query.value.option_fields import option_fields

MAX_MEMBERS = 50
"""The maximum `w`, and the maximum number of replica set members."""
_NUMBER_OR_BOOL = (*NUMBERS, BOOL)
_PROVENANCES = frozenset(
    ("clientSupplied", "implicitDefault", "customDefault", "getLastErrorDefaults", "internalWriteDefault")
)


Tags = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class WriteConcern:
    """The number of members that must have a write before it is acknowledged.

    `w`: a number of members, "majority", the name of a mode in the set's settings, or tags, each with the number of
    distinct values among the members that have the write. `j`: on disk; None if unspecified. `timeout_ms`: 0 is no
    limit.
    """

    w: int | str | Tags = 1
    j: bool | None = None
    timeout_ms: int = 0

    def document(self) -> dict[str, Any]:
        """Return the concern as a command field."""
        w = dict(self.w) if isinstance(self.w, tuple) else self.w
        body: dict[str, Any] = {"w": w, "wtimeout": self.timeout_ms}
        if self.j is not None:
            body["j"] = self.j
        return body


DEFAULT_WRITE_CONCERN = WriteConcern()
MAJORITY = WriteConcern("majority")


class ReadLevel(Enum):
    LOCAL = "local"
    AVAILABLE = "available"
    MAJORITY = "majority"
    LINEARIZABLE = "linearizable"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class ReadConcern:
    """The data that a read may see. `after_cluster_time` and `at_cluster_time` are packed timestamps."""

    level: ReadLevel = ReadLevel.LOCAL
    after_cluster_time: int | None = None
    at_cluster_time: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the concern as a command field."""
        body: dict[str, Any] = {"level": self.level.value}
        for name, packed in (("afterClusterTime", self.after_cluster_time), ("atClusterTime", self.at_cluster_time)):
            if packed is not None:
                body[name] = Timestamp(packed >> 32, packed & 0xFFFFFFFF)
        return body


LOCAL = ReadConcern()


class ReadMode(Enum):
    PRIMARY = "primary"
    PRIMARY_PREFERRED = "primaryPreferred"
    SECONDARY = "secondary"
    SECONDARY_PREFERRED = "secondaryPreferred"
    NEAREST = "nearest"


@dataclass(frozen=True, slots=True)
class ReadPreference:
    """The members that may serve a read. `tag_sets`: in order of preference, each a tuple of (name, value) pairs."""

    mode: ReadMode = ReadMode.PRIMARY
    tag_sets: tuple[tuple[tuple[str, str], ...], ...] = ()
    max_staleness_seconds: int | None = None

    @property
    def secondary_ok(self) -> bool:
        """True if a secondary may answer."""
        return self.mode is not ReadMode.PRIMARY

    def document(self) -> dict[str, Any]:
        """Return the preference as a command field."""
        body: dict[str, Any] = {"mode": self.mode.value}
        if self.tag_sets:
            body["tags"] = [dict(tags) for tags in self.tag_sets]
        if self.max_staleness_seconds is not None:
            body["maxStalenessSeconds"] = self.max_staleness_seconds
        return body


PRIMARY = ReadPreference()
SECONDARY_PREFERRED = ReadPreference(ReadMode.SECONDARY_PREFERRED)


@lru_cache(maxsize=256)
def parse_write_concern(code: int, data: bytes) -> WriteConcern:
    """Parse a command's `writeConcern`. Errors: TypeMismatch, FailedToParse, BadValue, Location40413, Location40415."""
    if code != OBJECT:
        raise CommandError(
            Code.TypeMismatch, f'"writeConcern" had the wrong type. Expected object, found {type_name(code)}'
        )
    w: int | str | Tags = 1
    j: bool | None = None
    fsync = False
    timeout_ms = 0
    for name, (kind, value) in option_fields("WriteConcernOptions", data).items():
        if name == "w":
            w = _parse_w(kind, value)
        elif name in ("j", "fsync"):
            if kind not in _NUMBER_OR_BOOL:
                raise wrong_type(f"WriteConcernOptions.{name}", kind, "[bool, long, int, decimal, double]")
            flag = truth_of(kind, value)
            if name == "j":
                j = flag
            else:
                fsync = flag
        elif name == "wtimeout":
            timeout_ms = _parse_timeout(kind, value)
        elif name == "provenance":
            if kind != STRING or text_of(value) not in _PROVENANCES:
                raise CommandError(Code.BadValue, "WriteConcernOptions.provenance is not a valid value")
        elif name not in ("getLastError", "wOpTime", "wElectionId"):
            raise CommandError(40415, f"BSON field 'WriteConcernOptions.{name}' is an unknown field.")
    if fsync and j:
        raise CommandError(Code.FailedToParse, "fsync and j options cannot be used together")
    return WriteConcern(w, True if fsync else j, timeout_ms)


def _parse_w(code: int, data: bytes) -> int | str | Tags:
    if code in NUMBERS:
        number = integer_of(code, data)
        if not 0 <= number <= MAX_MEMBERS:
            raise CommandError(
                Code.FailedToParse,
                f"w has to be a non-negative number and not greater than {MAX_MEMBERS}; found: {number}",
            )
        return number
    if code == STRING:
        return text_of(data)
    if code == OBJECT:
        return _parse_w_tags(data)
    raise CommandError(Code.FailedToParse, f"w has to be a number, string, or object; found: {type_name(code)}")


def _parse_w_tags(data: bytes) -> Tags:
    tags = elements(data)
    if not tags:
        raise CommandError(Code.FailedToParse, "tagged write concern requires tags")
    for name, code, value in tags:
        if code not in NUMBERS:
            field_text = f"{name}: {value_of(code, value)!r}"
            raise CommandError(
                Code.FailedToParse, f"tags must be a single level document with only number values; found: {field_text}"
            )
    return tuple((name, integer_of(code, value)) for name, code, value in tags)


def _parse_timeout(code: int, data: bytes) -> int:
    # The real server treats a non-number as no limit.
    timeout_ms = integer_of(code, data) if code in NUMBERS else 0
    if timeout_ms > 0x7FFFFFFF:
        raise CommandError(Code.FailedToParse, "wtimeout must be a 32-bit integer")
    return max(timeout_ms, 0)


@lru_cache(maxsize=256)
def parse_read_concern(code: int, data: bytes) -> ReadConcern:
    """Parse a command's `readConcern`. Errors: FailedToParse, InvalidOptions, TypeMismatch."""
    if code != OBJECT:
        raise CommandError(Code.FailedToParse, "readConcern field should be an object")
    level = ReadLevel.LOCAL
    times: dict[str, int] = {}
    for name, kind, value in elements(data):
        if name == "level":
            if kind != STRING:
                raise CommandError(
                    Code.TypeMismatch, f'"level" had the wrong type. Expected string, found {type_name(kind)}'
                )
            try:
                level = ReadLevel(text_of(value))
            except ValueError:
                raise CommandError(
                    Code.FailedToParse,
                    "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'",
                ) from None
        elif name in ("afterClusterTime", "atClusterTime"):
            if kind != TIMESTAMP:
                raise CommandError(
                    Code.TypeMismatch, f'"{name}" had the wrong type. Expected timestamp, found {type_name(kind)}'
                )
            times[name] = pack_timestamp(value_of(kind, value))
        elif name not in ("provenance", "afterOpTime"):
            raise CommandError(Code.InvalidOptions, f"Unrecognized option in readConcern: {name}")
        elif name == "afterOpTime":
            raise CommandError(Code.NotImplemented, "readConcern.afterOpTime is not supported; use afterClusterTime")
    if "atClusterTime" in times and level is not ReadLevel.SNAPSHOT:
        raise CommandError(Code.InvalidOptions, "readConcern.atClusterTime needs readConcern level 'snapshot'")
    for name, timestamp in times.items():
        if timestamp == 0:
            raise CommandError(Code.InvalidOptions, f"{name} cannot be a null timestamp")
    if "afterClusterTime" in times and level in (ReadLevel.LINEARIZABLE, ReadLevel.AVAILABLE):
        raise CommandError(
            Code.InvalidOptions,
            "afterClusterTime field can be set only with level majority, local or snapshot",
        )
    if len(times) == 2:
        raise CommandError(Code.InvalidOptions, "Can not specify both afterClusterTime and atClusterTime")
    return ReadConcern(level, times.get("afterClusterTime"), times.get("atClusterTime"))


@lru_cache(maxsize=256)
def parse_read_preference(code: int, data: bytes) -> ReadPreference:
    """Parse a command's `$readPreference`. Errors: TypeMismatch, NoSuchKey, BadValue, 160."""
    if code != OBJECT:
        raise CommandError(
            Code.TypeMismatch, f"$readPreference has incorrect type: expected object but got {type_name(code)}"
        )
    fields = {name: (kind, value) for name, kind, value in elements(data)}
    if "mode" not in fields:
        raise CommandError(Code.NoSuchKey, 'Missing expected field "mode"')
    kind, value = fields["mode"]
    if kind != STRING:
        raise CommandError(Code.TypeMismatch, f'"mode" had the wrong type. Expected string, found {type_name(kind)}')
    try:
        mode = ReadMode(text_of(value))
    except ValueError:
        raise CommandError(
            Code.BadValue,
            f"Could not parse $readPreference mode '{text_of(value)}'. Only the modes 'primary', 'primaryPreferred', "
            "'secondary', 'secondaryPreferred', and 'nearest' are supported.",
        ) from None
    tag_sets = _parse_tags(*fields["tags"]) if "tags" in fields else ()
    if mode is ReadMode.PRIMARY and any(tag_sets):
        raise CommandError(Code.BadValue, "Only empty tags are allowed with primary read preference")
    staleness = _parse_staleness(mode, *fields["maxStalenessSeconds"]) if "maxStalenessSeconds" in fields else None
    if "hedge" in fields:
        _check_hedge(mode, *fields["hedge"])
    return ReadPreference(mode, tag_sets, staleness)


def _parse_tags(code: int, data: bytes) -> tuple[tuple[tuple[str, str], ...], ...]:
    if code != ARRAY:
        raise CommandError(Code.TypeMismatch, f'"tags" had the wrong type. Expected array, found {type_name(code)}')
    sets = []
    for _, kind, value in elements(data):
        pairs = elements(value) if kind == OBJECT else None
        if pairs is None or any(type_code != STRING for _, type_code, _ in pairs):
            raise CommandError(Code.TypeMismatch, "each element of $readPreference.tags must be a document of strings")
        sets.append(tuple((name, text_of(text)) for name, _, text in pairs))
    return tuple(sets)


def _parse_staleness(mode: ReadMode, code: int, data: bytes) -> int | None:
    if code not in NUMBERS:
        raise CommandError(
            Code.TypeMismatch,
            f'Expected field "maxStalenessSeconds" to have numeric type, but found {type_name(code)}',
        )
    seconds = integer_of(code, data)
    if seconds < 0:
        raise CommandError(Code.BadValue, "maxStalenessSeconds must be a non-negative integer")
    if seconds == 0:
        return None
    if mode is ReadMode.PRIMARY:
        raise CommandError(Code.BadValue, "maxStalenessSeconds can not be set for the primary mode")
    if seconds < 90:
        raise CommandError(160, "maxStalenessSeconds value can not be less than 90")
    return seconds


def _check_hedge(mode: ReadMode, code: int, data: bytes) -> None:
    if code == NULL:
        return
    if code != OBJECT:
        raise CommandError(Code.TypeMismatch, "hedge field must be of type object if provided")
    enabled = option_fields("hedge", data).get("enabled")
    if enabled is not None and value_of(*enabled) and mode is ReadMode.PRIMARY:
        raise CommandError(Code.InvalidOptions, 'cannot enable hedging for $readPreference mode "primary"')
