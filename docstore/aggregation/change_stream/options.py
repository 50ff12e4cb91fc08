"""Options of `$changeStream`, checked as MongoDB 6.0 checks them."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.change_stream.token import ResumeToken, parse_token
from docstore.bson.walk import BOOL, NULL, OBJECT, STRING, TIMESTAMP, UNDEFINED, Value
from docstore.errors import Code, CommandError
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import type_name

DEFAULT, LOOKUP, AVAILABLE, REQUIRED, OFF = "default", "updateLookup", "whenAvailable", "required", "off"
_FULL = (DEFAULT, LOOKUP, AVAILABLE, REQUIRED)
_BEFORE = (OFF, AVAILABLE, REQUIRED)
_TYPES = {
    "fullDocument": ("string", STRING),
    "fullDocumentBeforeChange": ("string", STRING),
    "resumeAfter": ("object", OBJECT),
    "startAfter": ("object", OBJECT),
    "startAtOperationTime": ("timestamp", TIMESTAMP),
}
_BOOLEANS = ("allChangesForCluster", "showExpandedEvents")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStreamOptions:
    """`token`: the position to resume at, from `resumeAfter` or `startAfter`. `start`: a packed timestamp to begin
    at.
    """

    full_document: str = DEFAULT
    before_change: str = OFF
    token: ResumeToken | None = None
    start: int | None = None
    expanded: bool = False
    whole_cluster: bool = False

    @property
    def first_timestamp(self) -> int | None:
        """The packed timestamp from which operations are reported, at least 1 as none is older; None: from now on."""
        start = self.start if self.token is None else self.token.timestamp
        return None if start is None else max(start, 1)


def parse_options(value: Value) -> ChangeStreamOptions:
    """Parse the options.

    Errors: Location6188500, Location40415, TypeMismatch, BadValue, Location50865, Location40674, InvalidResumeToken,
    those of tokens.
    """
    if value[0] != OBJECT:
        text = display(value)
        raise CommandError(6188500, f"$changeStream must take a nested object but found: $changeStream: {text}")
    options: dict[str, Value] = {}
    for name, (code, data) in option_fields("$changeStream", value[1]).items():
        _check_type(name, (code, data))
        if code not in (NULL, UNDEFINED):
            options[name] = code, data
    _check_starts(options)
    token = None
    for name in ("resumeAfter", "startAfter"):
        if name in options:
            token = parse_token(options[name][1])
            if token.invalidates and name == "resumeAfter":
                raise CommandError(
                    Code.InvalidResumeToken,
                    "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate "
                    "notification",
                )
    start = options.get("startAtOperationTime")
    return ChangeStreamOptions(
        full_document=_choice(options, "fullDocument", DEFAULT, _FULL),
        before_change=_choice(options, "fullDocumentBeforeChange", OFF, _BEFORE),
        token=token,
        start=None if start is None else int.from_bytes(start[1], "little"),
        expanded=_truth(options, "showExpandedEvents"),
        whole_cluster=_truth(options, "allChangesForCluster"),
    )


def _check_type(name: str, value: Value) -> None:
    code = value[0]
    if name in _BOOLEANS:
        if code != BOOL:
            raise CommandError(
                Code.TypeMismatch, f"Field '{name}' should be a boolean value, but found: {type_name(value)}"
            )
    elif name in _TYPES:
        expected_type, accepted = _TYPES[name]
        if code not in (accepted, NULL, UNDEFINED):
            raise CommandError(
                Code.TypeMismatch,
                f"BSON field '$changeStream.{name}' is the wrong type '{type_name(value)}', expected type"
                f" '{expected_type}'",
            )
    else:
        raise CommandError(40415, f"BSON field '$changeStream.{name}' is an unknown field.")


def _check_starts(options: dict[str, Value]) -> None:
    if "resumeAfter" in options and "startAfter" in options:
        raise CommandError(50865, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage")
    if "startAtOperationTime" in options and ("resumeAfter" in options or "startAfter" in options):
        raise CommandError(40674, "Only one type of resume option is allowed, but multiple were found")


def _choice(options: dict[str, Value], name: str, default: str, allowed: tuple[str, ...]) -> str:
    if name not in options:
        return default
    text = options[name][1][4:-1].decode()
    if text not in allowed:
        raise CommandError(
            Code.BadValue, f"Enumeration value '{text}' for field '$changeStream.{name}' is not a valid value."
        )
    return text


def _truth(options: dict[str, Value], name: str) -> bool:
    return name in options and options[name][1] == b"\1"
