"""An update applied to stored documents: positions of `$`, times, and the limits on what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bson.objectid import ObjectId

from docstore.bson import Value, array_documents, validate
from docstore.bson.walk import ARRAY, OBJECT, OBJECT_ID
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode
from docstore.node.positions import matched_position
from docstore.query.language import Language
from docstore.query.tree import Filter
from docstore.query.update.parse import parse_update
from docstore.query.update.update import Update


@dataclass(slots=True)
class Modification:
    """One statement's update with its filter."""

    node: DataNode
    tree: Filter
    update: Update

    def apply(self, before: bytes) -> bytes:
        """The document after the update; the same bytes when nothing changes. Errors: 17419 over 16 MiB, Overflow."""
        position = matched_position(self.tree, before) if self.update.needs_position else None
        after = self.update.apply(before, matched_index=position, now=self._now(), timestamp=self._timestamp())
        if after != before:
            _check(after, 17419, "Resulting document after update is larger than")
        return after

    def upsert(self) -> bytes:
        """The document to insert when nothing matched. Errors: 17420 over 16 MiB, Overflow."""
        new_id = (OBJECT_ID, ObjectId().binary)
        made = self.update.upsert(self.tree, new_id, now=self._now(), timestamp=self._timestamp())
        _check(made, 17420, "Document to upsert is larger than")
        return made

    def _now(self) -> int:
        return int(self.node.wall_clock() * 1000)

    def _timestamp(self) -> int:
        return int.from_bytes(self.node.timestamp(), "little")


def _check(raw: bytes, code: int, complaint: str) -> None:
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise CommandError(code, f"{complaint} {MAX_DOCUMENT_BYTES}")
    validate(raw)


def modification_of(
    node: DataNode, tree: Filter, update: Value, array_filters: Sequence[bytes], language: Language
) -> Modification:
    """From the `u` of a statement. Errors: FailedToParse and those of the update language."""
    code, data = update
    if code == OBJECT:
        return Modification(node, tree, parse_update(data, array_filters, language=language))
    if code == ARRAY:
        return Modification(node, tree, parse_update(array_documents(data), array_filters, language=language))
    raise CommandError(Code.FailedToParse, "an update is a document or a pipeline")
