"""findAndModify: find one document, update or remove it, and return its pre-image or post-image.

A retry of an executed command answers from the oplog: the returned image has an entry of its own, written in the same
batch as the change.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from docstore.bson import Value, document_from, get_field
from docstore.bson.walk import BOOL, INT32, NULL, OBJECT
from docstore.collection.collection import Collection
from docstore.collection.oplog.journal import Image
from docstore.collection.transaction.claims import WriteConflict
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.write.evaluated import Overtaken, evaluated
from docstore.node.write.identity import Match, identity_of
from docstore.node.write.modification import Modification, takes_long
from docstore.node.write.searching_work import SearchingWork
from docstore.node.write.statement_loop import WriteTarget, entry_operation
from docstore.query.filter.tree import Filter
from docstore.query.find import Hint
from docstore.query.projection.projection import DocumentProjection
from docstore.query.scripts import ScriptsWanted
from docstore.query.sort import Sort

_INT = struct.Struct("<i")
_TRUE = b"\1"
_FALSE = b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindAndModifyRequest:
    """A parsed findAndModify; without `modification` it removes the document."""

    tree: Filter
    sort: Sort
    modification: Modification | None
    new: bool = False
    upsert: bool = False
    projection: DocumentProjection | None = None
    hint: Hint | None = None


@dataclass(frozen=True, slots=True)
class FindAndModifyResult:
    """The content of the reply: `existing` is None for a removal, `upserted` the `_id` of an inserted document."""

    n: int
    existing: bool | None
    value: bytes | None
    upserted: Value | None = None
    retried: int | None = None


class FindAndModifyWork(SearchingWork):
    """The statement of a findAndModify; `result` is set once `step` has returned True."""

    def __init__(self, target: WriteTarget, request: FindAndModifyRequest) -> None:
        super().__init__(target)
        self._answer: FindAndModifyResult | None = None
        self._request = request
        self._stmt_id = target.statement_id(0)

    @property
    def result(self) -> FindAndModifyResult:
        assert self._answer is not None, "the statement is not done yet"
        return self._answer

    def step(self, owned: Predicate | None, until: float) -> bool:
        target, request = self._target, self._request
        self._evaluated = self._evaluated or evaluated()
        # Another attempt of the statement may have been executed while this one waited.
        if self._retried():
            return True
        collection = target.collection()
        if collection is None:
            self._without_match(None)
            return True
        search = self._searched(collection)
        if search is None:
            identity = identity_of(request.tree, collection.collation)
            if identity is not None and request.hint is None:
                match = target.look_up(collection, identity, owned)
                if match is not None:
                    self._with_match(collection, match)
                else:
                    self._without_match(collection)
                return True
            search = self._begin_search(collection, request.tree, multi=False, hint=request.hint, sort=request.sort)
        matches = self._found(search, 1, owned, until)
        if matches:
            try:
                self._with_match(collection, matches[0])
            except (Overtaken, ScriptsWanted, WriteConflict):
                search.give_back(matches)
                raise
            return True
        if search.exhausted:
            self._without_match(collection)
            return True
        return False

    def _with_match(self, collection: Collection, match: Match) -> None:
        record_id, before = match
        modification = self._request.modification
        validator = self._target.validator(collection)
        scripted = self._evaluated
        if scripted is not None:
            scripted.begin()
        elif takes_long(collection, [match], modification):
            self._target.go_apart()
        unit = self._target.unit()
        try:
            if modification is None:
                image = Image("preImage", before)
                index_keys = None if scripted is None else scripted.keys(collection, (before,))
                unit.remove(collection, record_id, before, stmt_id=self._stmt_id, image=image, index_keys=index_keys)
                after = None
            else:
                after = modification.apply(before) if scripted is None else scripted.apply(modification, before)
                if after != before:
                    if validator is not None and scripted is None:
                        validator.check_change(before, after)
                    elif validator is not None and scripted is not None:
                        scripted.check_valid(validator, before, after)
                    self._check_shard_key(modification, before, after)
                    image = Image("postImage", after) if self._request.new else Image("preImage", before)
                    changed = modification.changed
                    index_keys = None if scripted is None else scripted.keys(collection, (before, after), changed)
                    unit.replace(
                        collection, record_id, before, after, stmt_id=self._stmt_id, image=image,
                        changed=changed, paths=modification.paths, index_keys=index_keys,
                    )  # fmt: skip
            if scripted is not None:
                scripted.check()
        except BaseException:
            unit.abort()
            raise
        if after == before:
            unit.abort()
        else:
            self._target.commit(unit)
        if self._target.execution is not None:
            self._target.execution.modified = int(after != before)
        value = after if self._request.new else before
        self._answer = FindAndModifyResult(1, None if modification is None else True, value)

    def _check_shard_key(self, modification: Modification, before: bytes, after: bytes) -> None:
        rules = self._target.post_images()
        if rules is not None and rules.concerned(modification.changed):
            rules.check_change(before, after, modification.tree, multi=False, in_session=self._target.in_session)

    def _without_match(self, collection: Collection | None) -> None:
        modification = self._request.modification
        if modification is None:
            self._answer = FindAndModifyResult(0, None, None)
            return
        if not self._request.upsert:
            self._answer = FindAndModifyResult(0, False, None)
            return
        scripted = self._evaluated
        validator = None if collection is None else self._target.validator(collection)
        document, index_keys = (
            (modification.upsert(), None) if scripted is None else scripted.upsert(modification, collection, validator)
        )
        self._target.check_new(document)
        collection = collection or make_collection(self._target.node.store, self._target.namespace)
        if validator is not None and scripted is None:
            validator.check_new(document)
        unit = self._target.unit()
        try:
            unit.insert(collection, document, stmt_id=self._stmt_id, index_keys=index_keys)
        except BaseException:
            unit.abort()
            raise
        self._target.commit(unit)
        self._answer = self._inserted(document)

    def _inserted(self, made: bytes, retried: int | None = None) -> FindAndModifyResult:
        identity = get_field(made, "_id")
        assert identity is not None, "a stored document has an _id"
        return FindAndModifyResult(1, False, made if self._request.new else None, identity, retried)

    def _retried(self) -> bool:
        optime = self._target.executed(self._stmt_id)
        if optime is None:
            return False
        entry = self._target.entry(optime)
        operation = entry_operation(entry)
        removes = self._request.modification is None
        if removes != (operation == "d"):
            raise CommandError(
                40606, "the command of this retry differs from the one that was executed: it was another kind of write"
            )
        if operation == "i":
            document = get_field(entry, "o")
            assert document is not None, "an oplog entry without o"
            self._answer = self._inserted(document[1], self._stmt_id)
        else:
            value = self._image(entry)
            self._answer = FindAndModifyResult(1, None if removes else True, value, None, self._stmt_id)
        return True

    def _image(self, entry: bytes) -> bytes:
        """Return the image that the first reply held. Errors: 40613 if the entry that holds it is gone."""
        link_field = "postImageOpTime" if self._request.new else "preImageOpTime"
        link = get_field(entry, link_field)
        oplog = self._target.node.store.oplog
        assert oplog is not None, "statements are remembered with an oplog only"
        if link is None:
            raise CommandError(40608, "the command of this retry asks for another document than the first one did")
        timestamp = get_field(link[1], "ts")
        assert timestamp is not None, "an optime without ts"
        image = oplog.entry(int.from_bytes(timestamp[1], "little"))
        if image is None:
            raise CommandError(40613, "the document that the first answer held is no longer in the oplog")
        document = get_field(image, "o")
        assert document is not None, "an oplog entry without o"
        return document[1]


def answer_fields(answer: FindAndModifyResult, projection: DocumentProjection | None) -> list[tuple[str, int, bytes]]:
    """Return the reply's fields."""
    last = [("n", INT32, _INT.pack(answer.n))]
    if answer.existing is not None:
        last.append(("updatedExisting", BOOL, _TRUE if answer.existing else _FALSE))
    if answer.upserted is not None:
        last.append(("upserted", *answer.upserted))
    fields = [("lastErrorObject", OBJECT, document_from(last))]
    if answer.value is None:
        fields.append(("value", NULL, b""))
    else:
        fields.append(("value", OBJECT, answer.value if projection is None else projection.apply(answer.value)))
    if answer.retried is not None:
        fields.append(("retriedStmtId", INT32, _INT.pack(answer.retried)))
    return fields
