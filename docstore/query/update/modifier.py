"""What an update operator does to one place of a document: between the tree of paths and the operators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Protocol

from docstore.bson.walk import Value, get_field
from docstore.query.value.notation import display


class Blocked(Enum):
    """What happens when something that is no document and no array stands on the way to the place."""

    REFUSE_TO_CREATE = "create"
    REFUSE_TO_MOVE = "move"
    """As to create, where there is something that would be put there."""
    REFUSE_TO_TRAVERSE = "traverse"
    NOTHING = "nothing"


@dataclass(slots=True, kw_only=True)
class Situation:
    """What an operator may know besides the value in its place.

    `document` is the document before the update, `now` milliseconds since 1970, `timestamp` a BSON timestamp as 64
    bits. `modified` is set by what counts as a modification although it leaves the value as it is.
    """

    document: bytes
    now: int
    timestamp: int
    modified: bool = False

    def identity(self) -> str:
        """The document as error messages name it."""
        found = get_field(self.document, "_id")
        return "{no _id}" if found is None else f"{{_id: {display(found)}}}"


class Modifier(Protocol):
    """One operator with its argument. Modifiers are values: applying one changes nothing but its result."""

    blocked: ClassVar[Blocked]

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        """The new value of the place at `path` given the current one; None stands for no value, before and after."""
        ...


@dataclass(frozen=True, slots=True)
class _Leave:
    """Leaves what is there, and nothing where nothing is."""

    blocked: ClassVar[Blocked] = Blocked.NOTHING

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        return current


LEAVE = _Leave()
"""What `$setOnInsert` does to a document that is there: its path must be one that can be walked, no more."""
