"""A sample of few of many documents: each is as likely as any other, whatever gaps there are."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import bson
import pytest

from docstore.aggregation.pipeline import Pipeline, parse_pipeline
from docstore.kernel.match.path_predicates import Compare
from docstore.node.pipeline.sampling import drawn_documents
from docstore.query.filter.parse import parse_filter
from docstore.query.find import FindQuery
from tests.unit.collection.building import doc, make, remove, store_on
from tests.unit.node.local import LocalNode

COUNT = 400


def sample(size: int) -> Pipeline:
    return parse_pipeline([bson.encode({"$sample": {"size": size}}), bson.encode({"$match": {"a": {"$gte": 0}}})])


def drawn(size: int = 5, *, kept: int = COUNT, owned: Any = None, seed: int = 1, query: Any = None) -> Any:
    """The `_id`s that samples draw of a collection of which only some of the documents are kept."""
    store = store_on()
    coll = make(store, "db.c", *(doc(n, a=n % 2) for n in range(COUNT)))
    for n in range(COUNT - kept):
        remove(store, coll, n * COUNT // (COUNT - kept))
    dice = random.Random(seed)
    samples = []
    for _ in range(400):
        found = drawn_documents(coll, query or FindQuery(), sample(size), store.engine, owned, dice.random)
        if found is None:
            return None
        samples.append([bson.decode(raw)["_id"] for raw in found])
    return samples


@pytest.mark.parametrize("owned", [None, Compare("a", "eq", (16, b"\1\0\0\0"))])
def test_every_document_is_as_likely_in_any_place(owned: Any) -> None:
    samples = drawn(5, kept=200, owned=owned)
    assert all(len(set(found)) == 5 for found in samples)
    for place in range(5):
        halves = Counter(found[place] < COUNT // 2 for found in samples)
        assert abs(halves[True] - halves[False]) < 100
    met = Counter(each for found in samples for each in found)
    assert len(met) > (95 if owned else 190)
    assert max(met.values()) < (50 if owned else 30)
    assert owned is None or all(each % 2 for each in met)


def test_where_documents_are_not_drawn() -> None:
    assert drawn(21) is None
    assert drawn(5, kept=90) is None
    assert drawn(4, query=FindQuery(filter=parse_filter(bson.encode({"a": 1})))) is None
    assert drawn(5, owned=Compare("a", "eq", (16, b"\7\0\0\0"))) is None


def test_the_stages_behind_it_get_the_sample() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n, "a": 1} for n in range(COUNT)))
        stages = [
            {"$sample": {"size": 7}},
            {"$group": {"_id": None, "n": {"$sum": "$a"}, "ids": {"$addToSet": "$_id"}}},
        ]
        for _ in range(20):
            reply = await node.run({"aggregate": "c", "pipeline": stages, "cursor": {}})
            [found] = reply["cursor"]["firstBatch"]
            assert (found["n"], len(found["ids"])) == (7, 7)
        reply = await node.run({"aggregate": "c", "pipeline": stages[:1], "cursor": {}})
        assert all(each["a"] == 1 for each in reply["cursor"]["firstBatch"])

    asyncio.run(story())
