"""Random stages of pipelines: those that name other collections, nested in each other, above all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bson.timestamp import Timestamp

from tests.differential.narrow.choices import Choices
from tests.differential.narrow.documents import Document, doc

CRASHING = frozenset(("$lookup", "$graphLookup"))
"""Stages of which the real server does not survive two values of one option. `$mergeCursors`, of which it does not
survive the parsing, is left out.
"""
OF_OPERATIONS = frozenset(("$currentOp", "$listLocalSessions", "$documents"))
"""Stages that a pipeline on no collection begins with, most of the time."""
MAX_DEPTH = 3


def pipeline(c: Choices, most: int = 3, depth: int = 0) -> list[Document]:
    return [stage(c, depth) for _ in range(c.below(most + 1))]


def stage(c: Choices, depth: int = 0) -> Document:
    kinds = _NAMING if c.chance(0.45) else _SOURCES if c.chance(0.35) else _PLAIN
    return c.pick(kinds)(c, depth)


def _nested(c: Choices, depth: int) -> list[Document]:
    return pipeline(c, 2, depth + 1) if depth < MAX_DEPTH else []


def _from(c: Choices) -> Any:
    """The collection of a join: a name, rarely one of another database."""
    if c.chance(0.9):
        return c.name()
    return doc(db=c.database(), coll=c.name())


def _target(c: Choices) -> Any:
    return c.name() if c.chance(0.5) else doc(db=c.database(), coll=c.pick(("spare", "c", "secret")))


def _lookup(c: Choices, depth: int) -> Document:
    fields: list[tuple[str, Any]] = [("from", _from(c)), ("as", "y")]
    if c.chance(0.6):
        fields += [("localField", "x"), ("foreignField", "x")]
    if c.chance(0.5):
        fields += [("pipeline", _nested(c, depth))]
        if c.chance(0.3):
            fields += [("let", doc(z=c.expression()))]
    if c.chance(0.05):
        del fields[0]
    c.random.shuffle(fields)
    return doc(("$lookup", Document(fields)))


def _graph(c: Choices, _depth: int) -> Document:
    more = [("restrictSearchWithMatch", c.filter())] if c.chance(0.3) else []
    more += [("maxDepth", c.below(3))] if c.chance(0.5) else []
    graph = {"startWith": "$x", "connectFromField": "x", "connectToField": "x", "as": "y"}
    return doc(("$graphLookup", doc(("from", _from(c)), *graph.items(), *more)))


def _union(c: Choices, depth: int) -> Document:
    if c.chance(0.3):
        return doc(("$unionWith", c.name()))
    fields: list[tuple[str, Any]] = [("coll", c.name())] if c.chance(0.9) else []
    if c.chance(0.7):
        fields.append(("pipeline", _nested(c, depth)))
    return doc(("$unionWith", Document(fields)))


def _facet(c: Choices, depth: int) -> Document:
    return doc(("$facet", doc(a=_nested(c, depth) or [doc(("$limit", 1))], b=[stage(c, MAX_DEPTH)])))


def _merge(c: Choices, depth: int) -> Document:
    if c.chance(0.15):
        return doc(("$merge", c.name()))
    fields: list[tuple[str, Any]] = [("into", _target(c))]
    if c.chance(0.6):
        changes: list[Any] = ["replace", "merge", "keepExisting", "fail", c.modifier(), [stage(c, depth + 1)]]
        fields.append(("whenMatched", c.pick(changes)))
    if c.chance(0.6):
        fields.append(("whenNotMatched", c.pick(("insert", "discard", "fail"))))
    if c.chance(0.2):
        fields.append(("on", c.pick(("_id", ["_id"], "x"))))
    if c.chance(0.2):
        fields.append(("let", doc(z=c.expression())))
    return doc(("$merge", Document(fields)))


def _change_stream(c: Choices, _depth: int) -> Document:
    fields: list[tuple[str, Any]] = []
    if c.chance(0.3):
        fields.append(("allChangesForCluster", c.chance(0.6)))
    if c.chance(0.3):
        fields.append(("fullDocument", c.pick(("default", "updateLookup", "whenAvailable", "required"))))
    if c.chance(0.2):
        fields.append(("fullDocumentBeforeChange", c.pick(("off", "whenAvailable", "required"))))
    if c.chance(0.1):
        fields.append(("showExpandedEvents", True))
    if c.chance(0.1):
        fields.append(("startAtOperationTime", Timestamp(1, 1)))
    if c.chance(0.1):
        fields.append(("resumeAfter", doc(_data="8200")))
    return doc(("$changeStream", Document(fields)))


def _users(c: Choices) -> list[Document]:
    return [doc(user=c.user(), db=c.pick(("admin", "own")))]


def _sessions(c: Choices, name: str) -> Document:
    kind = c.below(4)
    fields = (doc(), doc(allUsers=c.chance(0.7)), doc(users=_users(c)), doc(allUsers=False, users=_users(c)))[kind]
    return doc((name, fields))


def _current_op(c: Choices, _depth: int) -> Document:
    options = ("allUsers", "idleConnections", "idleSessions", "idleCursors", "localOps", "backtrace", "truncateOps")
    return doc(("$currentOp", Document((name, c.chance(0.5)) for name in options if c.chance(0.3))))


def _coll_stats(c: Choices, _depth: int) -> Document:
    fields = (
        ("count", doc()),
        ("storageStats", doc()),
        ("latencyStats", doc(histograms=True)),
        ("queryExecStats", doc()),
    )
    return doc(("$collStats", Document(field for field in fields if c.chance(0.5))))


_Maker = Callable[[Choices, int], Document]
_NAMING: tuple[_Maker, ...] = (
    _lookup, _lookup, _graph, _union, _union, _facet, _merge, _merge, lambda c, _: doc(("$out", _target(c))),
)  # fmt: skip
_SOURCES: tuple[_Maker, ...] = (
    _change_stream,
    _current_op,
    _coll_stats,
    lambda c, _: _sessions(c, "$listLocalSessions"),
    lambda c, _: _sessions(c, "$listSessions"),
    lambda c, _: doc(("$indexStats", doc())),
    lambda c, _: doc(("$planCacheStats", doc())),
    lambda c, _: doc(("$documents", [doc(x=1), doc(x=c.below(3))])),
    lambda c, _: doc(
        ("$_internalUnpackBucket", doc(timeField="at", metaField="m", exclude=[], bucketMaxSpanSeconds=3600))
    ),
    lambda c, _: doc(("$geoNear", doc(near=[0, 0], distanceField="d", key="p"))),
    lambda c, _: doc(("$search", doc())),
    lambda c, _: doc(("$_internalListCollections", doc())),
    lambda c, _: doc(("$listCatalog", doc())),
    lambda c, _: doc(("$_internalAllCollectionStats", doc(stats=doc(storageStats=doc())))),
    lambda c, _: doc(("$queue", [doc(x=1)])),
    lambda c, _: doc(("$operationMetrics", doc())),
    lambda c, _: doc(("$shardedDataDistribution", doc())),
)
_PLAIN: tuple[_Maker, ...] = (
    lambda c, _: doc(("$match", c.filter())),
    lambda c, _: doc(("$match", c.filter())),
    lambda c, _: doc(("$limit", 1 + c.below(3))),
    lambda c, _: doc(("$skip", c.below(2))),
    lambda c, _: doc(("$project", doc(x=1, y=c.expression()))),
    lambda c, _: doc(("$set", doc(y=c.expression()))),
    lambda c, _: doc(("$unset", "y")),
    lambda c, _: doc(("$sort", doc(x=c.pick((1, -1))))),
    lambda c, _: doc(("$group", doc(("_id", c.expression()), ("n", doc(("$sum", 1)))))),
    lambda c, _: doc(("$group", doc(_id=None, all=doc(("$push", "$$ROOT"))))),
    lambda c, _: doc(("$count", "n")),
    lambda c, _: doc(("$unwind", "$a")),
    lambda c, _: doc(("$sample", doc(size=1))),
    lambda c, _: doc(("$redact", c.pick(("$$KEEP", "$$PRUNE", "$$DESCEND")))),
    lambda c, _: doc(("$replaceRoot", doc(newRoot="$$ROOT"))),
    lambda c, _: doc(("$replaceWith", "$$ROOT")),
    lambda c, _: doc(("$sortByCount", "$x")),
    lambda c, _: doc(("$bucket", doc(groupBy="$x", boundaries=[0, 2], default="o"))),
    lambda c, _: doc(("$bucketAuto", doc(groupBy="$x", buckets=2))),
    lambda c, _: doc(("$setWindowFields", doc(sortBy=doc(x=1), output=doc(r=doc(("$rank", doc())))))),
    lambda c, _: doc(("$densify", doc(field="x", range=doc(step=1, bounds="full")))),
    lambda c, _: doc(("$fill", doc(output=doc(y=doc(value=1))))),
)
