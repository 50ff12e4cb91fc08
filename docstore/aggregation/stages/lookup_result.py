"""The output of a `$lookup`: a document with the array of its partners, or one document per partner (`$unwind`)."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.limits import MAX_LOOKUP_ARRAY_BYTES
from docstore.aggregation.stages.unwind import Unwind, replaced
from docstore.bson.build import document_from, documents_array, with_documents
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, Value, elements
from docstore.errors import CommandError
from docstore.kernel.group.partners import PartnerJoin


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The output builder. `unwind`: the array at `as_path` is unwound at once. `collection` is named in errors.

    `appends`: each part of the path moves to the end of its document, even if it existed.
    """

    collection: str | None
    as_path: str
    unwind: Unwind | None = None
    appends: bool = False

    def joined(self, document: bytes, matches: list[bytes]) -> list[bytes]:
        """Return the output for a document and its partners. Errors: 4568 for too many bytes in one array."""
        if self.unwind is not None:
            return self._unwound(document, self.as_path.split("."), matches)
        if matches and sum(map(len, matches)) > MAX_LOOKUP_ARRAY_BYTES:
            raise CommandError(
                4568, f"Total size of documents in {self.collection} matching pipeline exceeds maximum document size"
            )
        output = None if "." in self.as_path else with_documents(document, self.as_path, matches)
        if output is None:
            with_list = _with_last_array if self.appends else with_array
            output = with_list(document, self.as_path.split("."), matches)
        return [output]

    def plain_join(self) -> PartnerJoin | None:
        """Return the kernel's equivalent for many documents; None if the result is no top-level field."""
        unwind = self.unwind
        if "." in self.as_path or (unwind is not None and unwind.index_path is not None):
            return None
        return PartnerJoin(
            self.as_path, unwinds=unwind is not None, keeps_lonely=unwind is not None and unwind.keep_empty
        )

    def _unwound(self, document: bytes, parts: list[str], matches: list[bytes]) -> list[bytes]:
        assert self.unwind is not None, "called for a lookup that unwinds"
        if not matches:
            return list(self.unwind.unwound(with_array(document, parts, []))) if self.unwind.keep_empty else []
        documents: list[bytes] = []
        for position, match in enumerate(matches):
            output = replaced(document, parts, (OBJECT, match))
            documents.append(self.unwind.with_index(output, position))
        return documents


def with_array(document: bytes, parts: list[str], documents: list[bytes]) -> bytes:
    """Return the document with an array of documents at a path."""
    output = with_documents(document, parts[0], documents) if len(parts) == 1 else None
    return replaced(document, parts, (ARRAY, documents_array(documents))) if output is None else output


def _with_last_array(document: bytes, parts: list[str], documents: list[bytes]) -> bytes:
    output = with_documents(document, parts[0], documents) if len(parts) == 1 else None
    return _with_last(document, parts, (ARRAY, documents_array(documents))) if output is None else output


def _with_last(document: bytes, parts: list[str], value: Value) -> bytes:
    fields = elements(document)
    if len(parts) > 1:
        inner = next((data for name, code, data in fields if name == parts[0] and code == OBJECT), EMPTY_DOCUMENT)
        value = (OBJECT, _with_last(inner, parts[1:], value))
    return document_from([*(field for field in fields if field[0] != parts[0]), (parts[0], *value)])
