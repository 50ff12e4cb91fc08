"""Random commands that read and write documents, alone and in transactions, and go on with cursors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bson.int64 import Int64

from tests.differential.narrow.choices import FIELDS, Choices
from tests.differential.narrow.documents import Document, OpenCursor, doc
from tests.differential.narrow.stages import OF_OPERATIONS, pipeline, stage

_Maker = Callable[[Choices], Document]
_CURSORS = 64


def _cursor(c: Choices) -> Any:
    """The id of a cursor: of somebody's, or of nobody's."""
    return OpenCursor(c.below(_CURSORS)) if c.chance(0.8) else Int64(7)


def _bypass(c: Choices) -> dict[str, Any]:
    return {"bypassDocumentValidation": c.pick((True, 1, False))} if c.chance(0.1) else {}


def _some(c: Choices, *fields: tuple[str, Any], of: float = 0.25) -> tuple[tuple[str, Any], ...]:
    return tuple(field for field in fields if c.chance(of))


def _find(c: Choices) -> Document:
    return doc(
        ("find", c.name()),
        *_some(
            c,
            ("filter", c.filter()), ("sort", doc(x=1)), ("projection", doc(y=c.expression())),
            ("limit", 1 + c.below(3)), ("batchSize", c.below(3)), ("let", doc(z=1)),
            ("hint", c.pick(("_id_", doc(_id=1)))), ("singleBatch", True),
        ),
        *_some(c, ("tailable", True), ("awaitData", True), ("noCursorTimeout", True), ("returnKey", True), of=0.03),
    )  # fmt: skip


READING: tuple[_Maker, ...] = (
    _find,
    _find,
    lambda c: doc(("count", c.name()), *_some(c, ("query", c.filter()), ("limit", 2), ("skip", 1))),
    lambda c: doc(("distinct", c.name()), ("key", c.pick(FIELDS)), *_some(c, ("query", c.filter()))),
    lambda c: doc(("getMore", _cursor(c)), collection=c.name(), maxTimeMS=1),
    lambda c: doc(("getMore", _cursor(c)), collection=c.pick(("c", "c", "$cmd.aggregate", "$cmd.listCollections"))),
    lambda c: doc(("killCursors", c.name()), ("cursors", [_cursor(c) for _ in range(1 + c.below(2))])),
    lambda c: doc(listIndexes=c.name()),
    lambda c: doc(collStats=c.name()),
    lambda c: doc(("dataSize", c.namespace()), *_some(c, ("estimate", True))),
    lambda c: doc(("filemd5", 1), ("root", c.pick(("fs", "c")))),
    lambda c: doc(planCacheListFilters=c.name()),
)


def aggregate(c: Choices) -> Document:
    stages = [stage(c), *pipeline(c, 2)]
    about: Any = c.name()
    if (stages[0][0][0] in OF_OPERATIONS and c.chance(0.9)) or c.chance(0.08):
        about = 1
    elif stages[0][0][0] == "$listSessions" and c.chance(0.5):
        about = "system.sessions"
    cursor = doc(*_some(c, ("batchSize", c.below(3))))
    return doc(
        ("aggregate", about), ("pipeline", stages), ("cursor", cursor), *_bypass(c).items(),
        *_some(c, ("let", doc(z=c.below(3))), ("allowDiskUse", True), ("hint", "_id_"), of=0.08),
    )  # fmt: skip


def map_reduce(c: Choices) -> Document:
    name, db = c.pick(("spare", "c", "secret")), c.database()
    outs: list[Any] = [
        doc(inline=1), name, doc(replace=name), doc(merge=name), doc(reduce=name), doc(replace=name, db=db),
        doc(merge=name, db=db), doc(reduce=name, db=db, sharded=True), doc(("merge", name), ("nonAtomic", False)),
    ]  # fmt: skip
    more = _some(c, ("query", c.filter()), ("limit", 1), ("finalize", "function(k, v) { return v }"))
    return doc(
        ("mapReduce", c.name()), ("map", "function() { emit(1, 1) }"), ("reduce", "function(k, v) { return 1 }"),
        ("out", c.pick(outs)), *more, *_bypass(c).items(),
    )  # fmt: skip


def _statement(c: Choices) -> Document:
    change = c.modifier()
    more = _some(c, ("upsert", c.pick((True, 1, False))), of=0.4)
    more += _some(c, ("multi", isinstance(change, list)), ("hint", "_id_"), of=0.2)
    if isinstance(change, list) and c.chance(0.3):
        more += (("c", doc(z=c.below(3))),)
    if isinstance(change, Document) and c.chance(0.1):
        more += (("arrayFilters", [doc(("e.x", 1))]),)
    return doc(("q", c.filter()), ("u", change), *more)


def _deletion(c: Choices) -> Document:
    return doc(("q", c.filter() if c.chance(0.2) else doc(x=99)), ("limit", c.below(2)))


def _find_and_modify(c: Choices) -> Document:
    if c.chance(0.3):
        return doc(("findAndModify", c.name()), ("query", doc(x=99)), ("remove", True))
    return doc(
        ("findAndModify", c.name()), ("query", c.filter()), ("update", c.modifier()), *_bypass(c).items(),
        *_some(c, ("upsert", c.pick((True, 1))), ("new", True), ("sort", doc(x=1)), ("fields", doc(y=1))),
    )  # fmt: skip


WRITING: tuple[_Maker, ...] = (
    lambda c: doc(
        ("insert", c.name()), ("documents", [doc(x=c.below(9)) for _ in range(1 + c.below(2))]), *_bypass(c).items(),
        *_some(c, ("ordered", False)),
    ),
    lambda c: doc(("insert", c.pick(("t", "u"))), ("documents", [doc(x=1)])),
    lambda c: doc(
        ("update", c.name()), ("updates", [_statement(c) for _ in range(1 + c.below(3))]), *_bypass(c).items(),
        *_some(c, ("let", doc(z=1)), ("ordered", False), of=0.1),
    ),
    lambda c: doc(
        ("update", c.name()), ("updates", [_statement(c) for _ in range(1 + c.below(3))]), *_bypass(c).items()
    ),
    lambda c: doc(("delete", c.name()), ("deletes", [_deletion(c) for _ in range(1 + c.below(2))])),
    _find_and_modify,
    _find_and_modify,
    lambda c: doc(
        ("bulkWrite", 1), ("ops", [doc(("insert", 0), ("document", doc(x=1)))]), ("nsInfo", [doc(ns=c.namespace())])
    ),
)  # fmt: skip
EXPLAINED = frozenset(("find", "count", "distinct", "aggregate", "update", "delete", "findAndModify", "mapReduce"))
"""Commands that explain takes; others are explained once in a while."""
LISTED = {"insert": "documents", "update": "updates", "delete": "deletes"}
"""The field that may come as a document sequence."""
_IN_TRANSACTIONS: tuple[_Maker, ...] = (
    *READING[:2], READING[3], *WRITING[:1], *WRITING[2:7], aggregate, aggregate, READING[4],
    lambda c: doc(create=c.pick(("spare", "spare", c.name()))),
    lambda c: doc(createIndexes="spare", indexes=[doc(key=doc(z=1), name="z")]),
    lambda c: doc(drop="spare"), lambda c: doc(("count", c.name())), lambda c: doc(usersInfo=1),
)  # fmt: skip


def transaction(c: Choices) -> list[tuple[str, Document]]:
    """(database, request) of each step of a transaction, which ends."""
    c.transactions += 1
    named = (("lsid", c.session()), ("txnNumber", Int64(c.transactions)), ("autocommit", False))
    steps: list[tuple[str, Document]] = []
    for position in range(1 + c.below(3)):
        first = (("startTransaction", True),) if not position else ()
        concern = (("readConcern", doc(level=c.pick(("snapshot", "local", "majority")))),) if c.chance(0.2) else ()
        steps.append((c.database(), doc(*c.made(_IN_TRANSACTIONS), *named, *first, *(concern if first else ()))))
    if c.chance(0.1):
        steps.append((c.database(), doc(("commitTransaction", 1), *named)))
    if c.chance(0.5):
        steps.append(("admin", doc(("commitTransaction", 1), *named)))
    # What could not be committed is not to wait for its end.
    return [*steps, ("admin", doc(("abortTransaction", 1), *named))]
