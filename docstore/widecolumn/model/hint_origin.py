"""The origin of a hint: decides, when the hint is replayed, if its write is still valid.

A hint applies only to the column family that it was accepted for. It is outdated once that was dropped or truncated,
and after the grace period of deletions, when a deletion that hides it may be collected. A shard checks that in the
step that merges the write (`docstore.widecolumn.node.hinted_writes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bson.binary import Binary, UuidRepresentation
from bson.int64 import Int64

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError

OUTDATED = "hintOutdated"
"""The field by which `hint_outdated` is known."""


@dataclass(frozen=True, slots=True)
class HintOrigin:
    """`family`: the identity of the column family. `at`: when the write was kept, in microseconds since 1970 by the
    router's clock.
    """

    family: UUID
    at: int

    def document(self) -> dict[str, Any]:
        return {"family": Binary.from_uuid(self.family, UuidRepresentation.STANDARD), "at": Int64(self.at)}


def parse_hint_origin(raw: bytes | None) -> HintOrigin | None:
    """The origin that `HintOrigin.document` describes; None for a write that is no hint. BadValue."""
    if raw is None:
        return None
    fields = document_to_python(raw)
    family, at = fields.get("family"), fields.get("at")
    if not isinstance(family, Binary) or len(family) != 16 or isinstance(at, bool) or not isinstance(at, int):
        raise CommandError(Code.BadValue, "the origin of a hint is malformed")
    return HintOrigin(UUID(bytes=bytes(family)), at)


def hint_outdated(why: str) -> CommandError:
    """The hint must not be carried out any more."""
    return CommandError(Code.IllegalOperation, f"the hint is outdated: {why}", extra={OUTDATED: why})
