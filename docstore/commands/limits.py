"""The version that clients are told of, and the limits that hold in every process."""

from __future__ import annotations

from docstore.bson.walk import elements
from docstore.errors import Code, CommandError
from docstore.query.value.notation import display

COMPATIBLE_VERSION = "6.0.5"
"""The MongoDB version whose behaviour clients may expect."""
FEATURE_VERSION = "6.0"
MIN_WIRE_VERSION = 0
MAX_WIRE_VERSION = 17
MAX_WRITE_BATCH = 100_000
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_INTERNAL_BYTES = MAX_DOCUMENT_BYTES + 16 * 1024
"""Bytes of a document that is no stored one: a command, or a result."""
MAX_REQUEST_DEPTH = 200
"""Levels of documents and arrays in a request; deeper ones are refused before anything walks them."""

_SHOWN = 100
"""Characters of a value in an error."""


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
