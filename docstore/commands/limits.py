"""The version of MongoDB that a process passes for, and the limits that hold in every process.

Clients go by the version in what they send. What came with a later one than that of the face is refused as a server of
that version refuses what it does not know: a command is not found, a field is unknown. Operators of the query and
aggregation languages are there under every face, because no client asks for the version before it uses them.
"""

from __future__ import annotations

from dataclasses import dataclass

from docstore.bson.walk import elements
from docstore.errors import Code, CommandError
from docstore.options.values import EMULATED
from docstore.query.value.notation import display

MIN_WIRE_VERSION = 0
MAX_WRITE_BATCH = 100_000
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_INTERNAL_BYTES = MAX_DOCUMENT_BYTES + 16 * 1024
"""Bytes of a document that is no stored one: a command, or a result."""
MAX_REQUEST_DEPTH = 200
"""Levels of documents and arrays in a request; deeper ones are refused before anything walks them."""

_SHOWN = 100
"""Characters of a value in an error."""
_CUSTOM_BUCKETS = 19
_COMPOUND_WILDCARDS = 21
_BULK_WRITE = 25


@dataclass(frozen=True, slots=True)
class Face:
    """What a process passes for. `version`: the whole one; `feature_version`: its first two numbers, which name it."""

    version: str
    feature_version: str
    max_wire_version: int

    @property
    def has_custom_buckets(self) -> bool:
        """Whether a time-series collection may say how long its buckets are."""
        return self.max_wire_version >= _CUSTOM_BUCKETS

    @property
    def has_compound_wildcards(self) -> bool:
        """Whether a wildcard index may have further fields."""
        return self.max_wire_version >= _COMPOUND_WILDCARDS

    @property
    def has_bulk_write(self) -> bool:
        """Whether there is the command bulkWrite, and updates of one document are sorted."""
        return self.max_wire_version >= _BULK_WRITE


FACES = {face.feature_version: face for face in (Face("6.0.5", "6.0", 17), Face("8.0.0", "8.0", _BULK_WRITE))}
DEFAULT_FACE = FACES[EMULATED]


def check_internal_size(raw: bytes) -> None:
    """BSONObjectTooLarge for a document that is longer than a command or a result may be."""
    if len(raw) <= MAX_INTERNAL_BYTES:
        return
    name, code, data = elements(raw)[0]
    raise CommandError(
        Code.BSONObjectTooLarge,
        f"BSONObj size: {len(raw)} (0x{len(raw):X}) is invalid. Size must be between 0 and"
        f" {MAX_INTERNAL_BYTES}(16MB) First element: {name}: {display((code, data))[:_SHOWN]}",
    )


def batch_refused(count: int) -> CommandError:
    """The refusal of a command with so many statements."""
    return CommandError(
        Code.InvalidLength, f"Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {count} operations."
    )
