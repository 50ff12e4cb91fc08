"""Random commands about collections, views, indexes and their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.narrow.choices import Choices
from tests.differential.narrow.documents import Document, doc
from tests.differential.narrow.stages import pipeline

_Maker = Callable[[Choices], Document]
_VIEWS = ("v", "w", "spare")
_SERIES = doc(timeField="at", metaField="m")


def _validation(c: Choices) -> tuple[tuple[str, Any], ...]:
    return (("validator", doc(x=doc(("$gt", 0)))), ("validationLevel", "strict")) if c.chance(0.3) else ()


def _clone(c: Choices) -> Document:
    return doc(cloneCollectionAsCapped=c.name(), toCollection=c.pick(("spare", c.name())), size=4096)


def _listing(c: Choices) -> Document:
    fields = (("nameOnly", c.chance(0.7)), ("authorizedCollections", c.chance(0.7)), ("filter", doc(name=c.name())))
    return doc(("listCollections", 1), *(field for field in fields if c.chance(0.6)), cursor=doc())


def rename(c: Choices) -> Document:
    source, target = (f"{c.pick(('own', 'own', 'other', 'admin'))}.{c.name()}" for _ in range(2))
    more = (("dropTarget", c.chance(0.7)),) if c.chance(0.6) else ()
    return doc(("renameCollection", source), ("to", target), *more)


DEFINING: tuple[_Maker, ...] = (
    lambda c: doc(("create", c.pick(("spare", c.name()))), *_validation(c)),
    lambda c: doc(("create", c.pick(("spare", "spare", c.name()))), ("viewOn", c.name()), ("pipeline", pipeline(c))),
    lambda c: doc(("create", "spare"), ("viewOn", c.name()), ("pipeline", pipeline(c))),
    lambda c: doc(("create", "spare"), ("viewOn", c.name())),
    lambda c: doc(create="spare", capped=c.pick((True, 1, False)), size=4096),
    lambda c: doc(create="spare", timeseries=_SERIES),
    lambda c: doc(("create", "system.buckets.spare"), ("clusteredIndex", doc(key=doc(_id=1), unique=True))),
    lambda c: doc(collMod=c.pick(_VIEWS), viewOn=c.name(), pipeline=pipeline(c)),
    lambda c: doc(collMod=c.pick(_VIEWS), viewOn=c.pick(_VIEWS), pipeline=pipeline(c)),
    lambda c: doc(collMod="v", pipeline=pipeline(c)),
    lambda c: doc(collMod="v", viewOn=c.name()),
    lambda c: doc(("collMod", c.name()), *_validation(c)),
    lambda c: doc(("collMod", c.name()), ("index", doc(keyPattern=doc(x=1), hidden=True))),
    lambda c: doc(("collMod", c.name()), ("changeStreamPreAndPostImages", doc(enabled=True))),
    lambda c: doc(collMod=c.pick(("t", "u")), timeseries=doc(granularity="hours")),
    lambda c: doc(drop=c.pick(("spare", "spare", "system.users", "system.views", c.name()))),
    lambda c: doc(
        ("createIndexes", c.name()), ("indexes", [doc(key=doc(("z", c.pick((1, -1, "hashed")))), name="z")])
    ),
    lambda c: doc(("createIndexes", c.name()), ("indexes", [doc(key=doc(q=1), name="q", unique=True)])),
    lambda c: doc(dropIndexes=c.name(), index=c.pick(("z", "*", doc(z=1), ["z"]))),
    lambda c: doc(convertToCapped=c.pick(("spare", c.name())), size=4096),
    _clone,
    _listing,
    _listing,
    lambda c: doc(validate=c.name(), **({"full": True} if c.chance(0.2) else {})),
    lambda c: doc(planCacheClear=c.name()),
    lambda c: doc(planCacheSetFilter=c.name(), query=doc(x=1), indexes=[doc(x=1)]),
    lambda c: doc(planCacheClearFilters=c.name()),
    lambda c: doc(("profile", c.pick((-1, -1, 0))), *((("slowms", 100),) if c.chance(0.3) else ())),
    lambda c: doc(dbStats=1, **({"freeStorage": 1} if c.chance(0.2) else {})),
    lambda c: doc(("dbHash", 1), *((("collections", [c.name()]),) if c.chance(0.4) else ())),
    lambda c: doc(reIndex=c.name()),
    lambda c: doc(compact=c.name()),
    lambda c: doc(
        ("validateDBMetadata", 1), ("apiParameters", doc(version="1")),
        *((("db", c.database()),) if c.chance(0.5) else ()),
    ),
    lambda c: doc(setIndexCommitQuorum=c.name(), indexNames=["z"], commitQuorum=1),
    lambda c: doc(("enableSharding", c.database())),
    lambda c: doc(("shardCollection", c.namespace()), ("key", doc(x=1))),
    lambda c: doc(("split", c.namespace()), ("middle", doc(x=1))),
    lambda c: doc(("reshardCollection", c.namespace()), ("key", doc(y=1))),
    lambda c: doc(("moveChunk", c.namespace()), ("find", doc(x=1)), ("to", "one")),
)  # fmt: skip
DROPPING: tuple[_Maker, ...] = (lambda c: doc(dropDatabase=1),)
