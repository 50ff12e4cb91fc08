"""The emulated MongoDB version of a process, and the limits of every process.

Clients choose features by the version. Features newer than the emulated version (the face) are refused as a server of
that version refuses unknown ones: a command is not found, a field is unknown. Query and aggregation operators exist
under every face, because clients use them without checking the version.
"""

from __future__ import annotations

from dataclasses import dataclass

from docstore.bson.walk import elements
from docstore.errors import Code, CommandError
from docstore.options.values import EMULATED, VERSIONS
from docstore.query.value.notation import display

MIN_WIRE_VERSION = 0
MAX_WRITE_BATCH = 100_000
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_INTERNAL_BYTES = MAX_DOCUMENT_BYTES + 16 * 1024
"""Maximum bytes of a command or a result, which is not stored."""
LONG_REQUEST_BYTES = 64 * 1024
"""Longer requests are read on a thread of their own; document sequences do not count."""
MAX_REQUEST_DEPTH = 200
"""Maximum nesting of documents and arrays in a request, checked before anything recurses into it."""
MAX_CACHED_DECISIONS = 1024
"""Decisions of access control cached for a user."""
MAX_COMMAND_NAME_BYTES = 256
MAX_TIME_MS = 0x7FFFFFFF
MAX_TEMPLATE_BYTES = 1024
"""Longer requests carry data; comparing them does not pay."""
MAX_TEMPLATE_KINDS = 8
"""Kinds of requests for which a connection has templates."""
MAX_KIND_TEMPLATES = 3
"""Templates of one kind with different fields, such as the first and later requests of a transaction."""
MAX_CAPPED_BYTES = 1 << 50
MAX_CAPPED_DOCUMENTS = 0x7FFFFFFF

_SHOWN = 100
"""Maximum characters of a value in an error text."""
_CUSTOM_BUCKETS = 19
_COMPOUND_WILDCARDS = 21
_BULK_WRITE = 25


@dataclass(frozen=True, slots=True)
class Face:
    """The emulated server version. `version`: the full version; `feature_version`: its first two numbers."""

    version: str
    feature_version: str
    max_wire_version: int

    @property
    def has_custom_buckets(self) -> bool:
        """True if time-series collections accept custom bucket durations."""
        return self.max_wire_version >= _CUSTOM_BUCKETS

    @property
    def has_compound_wildcards(self) -> bool:
        """True if wildcard indexes may be compound."""
        return self.max_wire_version >= _COMPOUND_WILDCARDS

    @property
    def has_bulk_write(self) -> bool:
        """True if the command bulkWrite exists, and updates of one document accept a sort."""
        return self.max_wire_version >= _BULK_WRITE


FACES = {
    face.feature_version: face for face in (Face(VERSIONS["6.0"], "6.0", 17), Face(VERSIONS["8.0"], "8.0", _BULK_WRITE))
}
DEFAULT_FACE = FACES[EMULATED]


def check_internal_size(raw: bytes) -> None:
    """Errors: BSONObjectTooLarge for a document longer than a command or a result may be."""
    if len(raw) <= MAX_INTERNAL_BYTES:
        return
    name, code, data = elements(raw)[0]
    raise CommandError(
        Code.BSONObjectTooLarge,
        f"BSONObj size: {len(raw)} (0x{len(raw):X}) is invalid. Size must be between 0 and"
        f" {MAX_INTERNAL_BYTES}(16MB) First element: {name}: {display((code, data))[:_SHOWN]}",
    )


def batch_refused(count: int) -> CommandError:
    """Return the error for a command with too many or no statements."""
    return CommandError(
        Code.InvalidLength, f"Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {count} operations."
    )
