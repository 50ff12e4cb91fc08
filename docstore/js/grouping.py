"""The classic `group` command's documents on their way through a worker; `runtime/group.js` is the other side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import get_field
from docstore.bson.walk import Value
from docstore.js.frames import chunks, split_documents
from docstore.js.job import Limits
from docstore.js.session import function_source
from docstore.js.workers import Workers

_START, _DOCUMENTS, _END = 3, 4, 5
"""The steps of a group call; the numbers are those of evaluate.js."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJob:
    """A group operation, with either `key` (a document that names the fields) or `key_function`. Functions are code
    or strings; `stored`: those that the database keeps.
    """

    reduce: Value
    initial: bytes
    key: bytes | None = None
    key_function: Value | None = None
    finalize: Value | None = None
    stored: bytes | None = None

    def definition(self) -> bytes:
        """For the worker."""
        functions = {"keyFunction": self.key_function, "reduce": self.reduce, "finalize": self.finalize}
        fields: dict[str, object] = {"way": _START, "initial": RawBSONDocument(self.initial)}
        scopes = [] if self.stored is None else [self.stored]
        for name, function in functions.items():
            if function is not None:
                fields[name], scope = function_source(function)
                scopes += [] if scope is None else [scope]
        if self.key is not None:
            fields["key"] = RawBSONDocument(self.key)
        return bson.encode({**fields, "scopes": [RawBSONDocument(scope) for scope in scopes]})


async def run_group(
    workers: Workers, job: GroupJob, batches: AsyncIterator[list[bytes]], owner: Hashable = None
) -> list[Value]:
    """Return the result of each key. Errors: those of the functions, 10042, 10043."""
    async with workers.lease(Limits(owner=owner)) as lease:
        await lease.exchange(job.definition())
        head = bson.encode({"way": _DOCUMENTS})
        async for batch in batches:
            for chunk in chunks(batch):
                await lease.exchange(head + chunk)
        documents = split_documents(await lease.exchange(bson.encode({"way": _END})))
    return [value for value in (get_field(document, "v") for document in documents) if value is not None]
