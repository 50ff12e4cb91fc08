"""Pipeline output by commands: `$out` and `$merge` into a target on another process.

`$out` fills a collection of its own beside the target, with the target's options and indexes, and has it renamed into
the target's place. The primary that has made it takes the documents and renames it, in the same term, or refuses
(`docstore.node.remote_outputs`). `$merge` becomes the updates and inserts that mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import bson
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.expression_context import SYSTEM_VARIABLES
from docstore.aggregation.stages.write import Merge, WhenMatched, WhenNotMatched
from docstore.bson import array_documents, document_from, document_to_python, elements, get_field, get_path
from docstore.bson.walk import OBJECT
from docstore.errors import Code, CommandError
from docstore.query.value.collation import parse_collation

WRITE_FIELDS = frozenset(("writeConcern", "bypassDocumentValidation", "comment"))
"""Fields of an aggregate that also apply to its writes."""

_MERGED = {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$$new"]}}


class Target(Protocol):
    """The target collection, as the process that runs the pipeline reaches it."""

    namespace: str
    id_fields: tuple[str, ...]
    """The default `on` fields of `$merge`."""
    required_fields: tuple[str, ...]
    """The fields that `on` must contain: those of a shard key."""
    unidentified_code: int
    """The error code for `on` fields without a unique index."""

    async def ask(self, command: dict[str, Any]) -> bytes:
        """Return the reply to a command on the target's database. Errors: those of the command."""
        ...

    async def fill(self, temporary: str, documents: Sequence[bytes]) -> dict[str, Any]:
        """Insert documents, unordered, into a collection that was made for them; the reply. Errors: the first refusal,
        those of `docstore.node.remote_outputs`."""
        ...

    async def insert(self, documents: Sequence[bytes]) -> dict[str, Any]:
        """Insert documents, unordered, into it; the reply. Errors: the first refusal."""
        ...

    async def update(self, stage: Merge, statements: Sequence[bytes]) -> dict[str, Any]:
        """Run update statements of a `$merge` on the target, unordered; return the reply. Errors: the first write
        error.
        """
        ...

    async def rename(self, temporary_name: str) -> bytes:
        """Put a collection that was filled into its place; the reply. Errors: those of the renaming, and of `fill`."""
        ...

    async def drop(self, temporary_name: str) -> None:
        """Drop that collection, if it exists."""
        ...


class OutOutput:
    """`$out`. `temporary_name`: the name of the new collection."""

    def __init__(self, target: Target, temporary_name: str) -> None:
        self._target = target
        self._temporary_name = temporary_name
        self.concern_error: dict[str, Any] | None = None
        """The reply's write concern error, if any."""

    async def begin(self) -> None:
        """Create the new collection, with the options and indexes of the target. Errors: 17152 for a capped target."""
        target, collection = self._target, _collection(self._target)
        options: dict[str, Any] = {}
        indexes: list[RawBSONDocument] = []
        for raw in _first_batch(await target.ask({"listCollections": 1, "filter": {"name": collection}})):
            options = dict(document_to_python(raw)["options"])
            listed = await target.ask({"listIndexes": collection})
            indexes = [RawBSONDocument(index) for index in _first_batch(listed)]
        if options.get("capped"):
            raise CommandError(17152, f"namespace '{target.namespace}' is capped so it can't be used for $out")
        await target.ask({"create": self._temporary_name, **options, "forOutput": True})
        if len(indexes) > 1:
            await target.ask({"createIndexes": self._temporary_name, "indexes": indexes[1:]})

    async def write(self, documents: list[bytes]) -> None:
        """Write some results."""
        await self._target.fill(self._temporary_name, [_with_id(document) for document in documents])

    async def end(self) -> None:
        """Make the results visible."""
        try:
            answer = await self._target.rename(self._temporary_name)
        except CommandError:
            await self.give_up()
            raise
        # The rename follows all documents: its write concern covers them.
        self.concern_error = document_to_python(answer).get("writeConcernError")

    async def give_up(self) -> None:
        """Drop the new collection."""
        await self._target.drop(self._temporary_name)


class Merging:
    """`$merge`."""

    def __init__(self, target: Target, stage: Merge) -> None:
        self._target = target
        self._stage = stage if stage.on is not None else replace(stage, on=target.id_fields)
        self._checked = stage.on is None
        self.concern_error: dict[str, Any] | None = None
        """The reply's write concern error, if any."""

    async def begin(self) -> None:
        """Errors: the target's `unidentified_code` if no unique index has exactly the `on` fields, or if these lack a
        field of the shard key: indexes are unique on each shard only.
        """
        if not self._checked:
            await self._check_fields()

    async def end(self) -> None:
        """Do nothing: the results are visible as they are written."""

    async def give_up(self) -> None:
        """Do nothing: written results stay."""

    async def write(self, documents: list[bytes]) -> None:
        """Write a batch of results."""
        stage = self._stage
        if "_id" in (stage.on or ()):
            documents = [_with_id(document) for document in documents]
        if stage.matched is WhenMatched.FAIL:
            await self._insert(documents)
            return
        if stage.matched is WhenMatched.PIPELINE and stage.not_matched is WhenNotMatched.INSERT:
            for document in documents:
                reply = await self._update([document])
                if not reply["n"]:
                    await self._insert([document])
            return
        reply = await self._update(documents)
        if stage.not_matched is WhenNotMatched.FAIL and reply["n"] < len(documents):
            raise CommandError(
                Code.MergeStageNoMatchingDocument,
                "$merge could not find a matching document in the target collection for at least one document in the"
                " source collection",
            )

    async def _check_fields(self) -> None:
        stage = self._stage
        fields = stage.on or ()
        unidentified = CommandError(
            self._target.unidentified_code, "Cannot find index to verify that join fields will be unique"
        )
        if not set(fields).issuperset(self._target.required_fields):
            raise unidentified
        try:
            listed = _first_batch(await self._target.ask({"listIndexes": _collection(self._target)}))
        except CommandError as error:
            if error.code != Code.NamespaceNotFound:
                raise
            if fields == ("_id",):
                return
            listed = []
        for index in map(document_to_python, listed):
            unique = index.get("unique") or list(index["key"]) == ["_id"]
            if unique and set(index["key"]) == set(fields) and "partialFilterExpression" not in index:
                rules = index.get("collation")
                if stage.query_context.collation == (None if rules is None else parse_collation(bson.encode(rules))):
                    return
        raise unidentified

    async def _update(self, documents: list[bytes]) -> dict[str, Any]:
        statements = [bson.encode(self._statement(document)) for document in documents]
        return self._noted(await self._target.update(self._stage, statements))

    async def _insert(self, documents: list[bytes]) -> None:
        statements = [_with_id(document) for document in documents]
        self._noted(await self._target.insert(statements))

    def _noted(self, reply: dict[str, Any]) -> dict[str, Any]:
        self.concern_error = self.concern_error or reply.get("writeConcernError")
        return reply

    def _statement(self, document: bytes) -> dict[str, Any]:
        stage = self._stage
        query = document_from([(path, OBJECT, document_from([("$eq", *v)])) for path, v in stage.identity(document)])
        upsert = stage.not_matched is WhenNotMatched.INSERT and stage.matched is not WhenMatched.PIPELINE
        statement: dict[str, Any] = {"q": RawBSONDocument(query), "upsert": upsert}
        if stage.matched is WhenMatched.REPLACE:
            return {**statement, "u": RawBSONDocument(document)}
        if stage.matched is WhenMatched.KEEP:
            insert_document = document_from(field for field in elements(document) if field[0] not in (stage.on or ()))
            return {**statement, "u": {"$setOnInsert": RawBSONDocument(insert_document)}}
        # An update has no variables of the aggregate: the pipeline gets those of its `let`, too.
        outer = {name: value for name, value in stage.query_context.variables.items() if name not in SYSTEM_VARIABLES}
        variables = {**outer, **dict(stage.variables(document))}
        constants = [(name, *value) for name, value in variables.items() if value is not None]
        update: list[Any] = [RawBSONDocument(step) for step in stage.pipeline]
        if stage.matched is WhenMatched.MERGE:
            update = [_MERGED]
        return {**statement, "u": update, "c": RawBSONDocument(document_from(constants))}


def checked(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of a write command. Errors: its first write error."""
    for first in reply.get("writeErrors", ()):
        extra = {name: first[name] for name in ("keyPattern", "keyValue", "errInfo") if name in first}
        raise CommandError(first["code"], first["errmsg"], extra=extra)
    return reply


def _with_id(document: bytes) -> bytes:
    if get_field(document, "_id") is not None:
        return document
    return document_from([*elements(bson.encode({"_id": ObjectId()})), *elements(document)])


def _collection(target: Target) -> str:
    return target.namespace.partition(".")[2]


def _first_batch(reply: bytes) -> list[bytes]:
    batch = get_path(reply, "cursor.firstBatch")
    assert batch is not None, "a cursor command's reply has a batch"
    return array_documents(batch[1])
