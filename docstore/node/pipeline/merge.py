"""`$merge`: update the target's document that each result matches, or insert the result.

A refused result does not stop the others of its batch; the first error becomes that of the command.
"""

from __future__ import annotations

from bson.objectid import ObjectId

from docstore.aggregation.stages.write import Merge, WhenMatched, WhenNotMatched
from docstore.bson import Value, document_from, elements, get_field, to_python, validate
from docstore.bson.walk import OBJECT_ID
from docstore.collection.collection import Collection, Index
from docstore.collection.oplog.diff import REPLACED
from docstore.collection.read.matching import find_matches
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.node import DataNode
from docstore.node.write.documents import prepare
from docstore.node.write.validators import Validator, validator_of
from docstore.optime import OpTime
from docstore.query.filter.tree import And, Comparison, Filter, Op, collated
from docstore.query.value.collation import Collation

_CLOCK_EVERY = 16

_BY_SETTING = (WhenMatched.KEEP, WhenMatched.MERGE)
"""Modes in which a new document is built field by field."""

Match = tuple[int, bytes]
"""(Record id, document)."""

Identity = list[tuple[str, Value]]
"""The `on` fields with their values."""


class MergeOutput:
    """Writes the results of `$merge`. Implements `docstore.node.pipeline.out.Output`."""

    def __init__(self, node: DataNode, namespace: str, stage: Merge, *, bypass: bool) -> None:
        self.last: OpTime | None = None
        self._node = node
        self._namespace = namespace
        self._stage = stage
        self._bypass = bypass
        self._by_id = stage.on in (None, ("_id",))
        self._stored_under: Collation | None = None
        self._validator: Validator | None = None
        self._failure: CommandError | None = None
        self._unmatched = False

    def begin(self) -> None:
        """Check the `on` fields. Errors: 51183 without a unique index on exactly these."""
        collection = self._node.store.collection(self._namespace)
        join_fields = set(self._stage.on or ())
        indexes = [] if collection is None else list(collection.indexes.values())
        if self._stage.on is None or (self._by_id and collection is None):
            return
        rules = self._stage.query_context.collation
        if any(_identifies(index, join_fields) and index.collation == rules for index in indexes):
            return
        raise CommandError(51183, "Cannot find index to verify that join fields will be unique")

    def write(self, documents: list[bytes], until: float) -> int:
        store = self._node.store
        collection = store.collection(self._namespace)
        if collection is None and self._stage.not_matched is WhenNotMatched.INSERT:
            collection = make_collection(store, self._namespace)
        if collection is not None:
            self._stored_under = collection.collation
            self._validator = validator_of(self._node, collection, bypass=self._bypass)
        written = 0
        unit = store.unit()
        try:
            for document in documents:
                try:
                    self._merge(unit, collection, document)
                except WriteConflict:
                    raise
                except CommandError as error:
                    self._failure = self._failure or error
                written += 1
                if written % _CLOCK_EVERY == 0 and self._node.clock() >= until:
                    break
        except BaseException:
            unit.abort()
            raise
        self.last = unit.commit() or self.last
        self._raise_failure()
        return written

    def end(self) -> None:
        """Do nothing: every batch is committed by then."""

    def give_up(self) -> None:
        """Do nothing: committed results stay."""

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._unmatched:
            raise CommandError(
                Code.MergeStageNoMatchingDocument,
                "$merge could not find a matching document in the target collection for at least one document in the"
                " source collection",
            )

    def _merge(self, unit: WriteUnitOfWork, collection: Collection | None, document: bytes) -> None:
        if "_id" in (self._stage.on or ("_id",)) and get_field(document, "_id") is None:
            document = document_from([("_id", OBJECT_ID, _new_id()), *elements(document)])
        identity = self._stage.identity(document)
        if self._stage.lacks_variables(document):
            self._stage.update(document, self._stored_under)
        # With whenMatched: "fail", insert: the unique indexes detect a match.
        inserts = self._stage.matched is WhenMatched.FAIL and self._stage.not_matched is WhenNotMatched.INSERT
        match = None if collection is None or inserts else self._match(unit, collection, identity)
        if match is not None:
            assert collection is not None, "the match was found in it"
            self._change(unit, collection, match, document, identity)
        elif self._stage.not_matched is WhenNotMatched.INSERT:
            assert collection is not None, "it is made before anything is inserted"
            if self._stage.matched in _BY_SETTING:
                document = _seeded(document, identity)
            new_document = prepare(document, _new_id, self._node.timestamp)
            if self._validator is not None:
                self._validator.check_new(new_document)
            unit.insert(collection, new_document)
        elif self._stage.not_matched is WhenNotMatched.FAIL:
            self._unmatched = True

    def _match(self, unit: WriteUnitOfWork, collection: Collection, identity: Identity) -> Match | None:
        if self._by_id:
            return collection.look_up(unit, identity[0][1])
        tree: Filter = And(tuple(Comparison(path, Op.EQ, value) for path, value in identity))
        if collection.collation is not None:
            tree = collated(tree, collection.collation)
        matches = find_matches(collection, tree, unit, clock=self._node.clock)
        return next((match for match in matches if match is not None), None)

    def _change(
        self, unit: WriteUnitOfWork, collection: Collection, match: Match, document: bytes, identity: Identity
    ) -> None:
        record_id, before = match
        after = self._changed(before, document, identity)
        if after == before:
            return
        if len(after) > MAX_DOCUMENT_BYTES:
            raise CommandError(17419, f"Resulting document after update is larger than {MAX_DOCUMENT_BYTES}")
        validate(after)
        if self._validator is not None:
            self._validator.check_change(before, after)
        paths = REPLACED if self._stage.matched is WhenMatched.REPLACE else None
        unit.replace(collection, record_id, before, after, paths=paths)

    def _changed(self, before: bytes, document: bytes, identity: Identity) -> bytes:
        matched = self._stage.matched
        if matched is WhenMatched.KEEP:
            return before
        if matched is WhenMatched.FAIL:
            raise _duplicate(identity)
        if matched is WhenMatched.REPLACE:
            after = document
        elif matched is WhenMatched.MERGE:
            fields = {name: (name, code, data) for name, code, data in elements(before)}
            fields.update({name: (name, code, data) for name, code, data in sorted(elements(document))})
            after = document_from(fields.values())
        else:
            after = self._stage.update(document, self._stored_under)(before)
        return _with_id_of(before, after)


def _duplicate(identity: Identity) -> CommandError:
    return CommandError(
        Code.DuplicateKey,
        "$merge with whenMatched: fail found an existing document with the same values for the 'on' field",
        extra={
            "keyPattern": {path: 1 for path, _ in identity},
            "keyValue": {path: to_python(value) for path, value in identity},
        },
    )


def _seeded(document: bytes, identity: Identity) -> bytes:
    """Return the document with its fields in the order that an upsert with `$set` or `$setOnInsert` gives them."""
    first = [path for path, _ in identity if "." not in path]
    fields = {name: (name, code, data) for name, code, data in elements(document)}
    names = [*first, *sorted(name for name in fields if name not in first)]
    return document_from(fields[name] for name in names)


def _identifies(index: Index, wanted: set[str]) -> bool:
    """Return True if the index is unique on exactly these fields, for all documents."""
    return index.unique and not index.spec.partial and {path for path, _ in index.fields} == wanted


def _with_id_of(before: bytes, made: bytes) -> bytes:
    """Return the new document with the old `_id`. Errors: ImmutableField if it has another one."""
    old, new = get_field(before, "_id"), get_field(made, "_id")
    assert old is not None, "a stored document has an _id"
    if new is not None and new != old and encode_key(new) != encode_key(old):
        raise CommandError(
            Code.ImmutableField,
            "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?",
        )
    fields = elements(made)
    if new is not None and fields[0][0] == "_id":
        return made
    id_value = old if new is None else new
    return document_from([("_id", *id_value), *(field for field in fields if field[0] != "_id")])


def _new_id() -> bytes:
    return ObjectId().binary
