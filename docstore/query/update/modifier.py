"""The interface between an update's tree of paths and its operators: an operator changes the value at one path."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Protocol

from docstore.bson.walk import Value, get_field
from docstore.query.value.notation import display


class Blocked(Enum):
    """The reaction to a value on the path that is neither a document nor an array."""

    REFUSE_TO_CREATE = "create"
    REFUSE_TO_MOVE = "move"
    """Like creation, if there is a value to put there."""
    REFUSE_TO_TRAVERSE = "traverse"
    NOTHING = "nothing"


@dataclass(slots=True, kw_only=True)
class Situation:
    """The context of an operator, besides the value at its path.

    `document` is the document before the update, `now` milliseconds since 1970, `timestamp` a BSON timestamp as 64
    bits. An operator sets `modified` if its effect counts as a modification although the value stays the same.
    `inserting`: the result is a new document, of an upsert.
    """

    document: bytes
    now: int
    timestamp: int
    modified: bool = False
    inserting: bool = False

    def identity(self) -> str:
        """Return the document's `_id` in the form of error messages."""
        document_id = get_field(self.document, "_id")
        return "{no _id}" if document_id is None else f"{{_id: {display(document_id)}}}"


class Modifier(Protocol):
    """One operator with its argument. Modifiers are values: applying one has no effect but its result."""

    blocked: ClassVar[Blocked]

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        """Return the new value at `path` given the current one; None means no value, before and after."""
        ...


@dataclass(frozen=True, slots=True)
class _Leave:
    """Leaves a value, or its absence, unchanged."""

    blocked: ClassVar[Blocked] = Blocked.NOTHING

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        return current


LEAVE = _Leave()
"""The effect of `$setOnInsert` on an existing document: it only checks that its path can be walked."""
