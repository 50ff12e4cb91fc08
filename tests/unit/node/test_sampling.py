"""A sample of few of many documents: each is as likely as any other, whatever gaps there are."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

import bson
import pytest

from docstore.aggregation.parse import parse_pipeline, parse_written
from docstore.aggregation.split import split_pipeline
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.streams import DocumentList
from docstore.kernel.match.path_predicates import Compare
from docstore.node.pipeline.sampling import drawn_documents
from docstore.query.context import PLAIN
from docstore.query.filter.parse import parse_filter
from docstore.query.find import FindQuery
from tests.unit.aggregation.running import drain
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


def test_every_document_of_several_shards_is_as_likely() -> None:
    """Of a shard of 300 documents, whose samples are drawn by record ids, and one of 60, where all draw numbers."""
    dice = random.Random(3)
    stores = []
    for first, count in ((0, 300), (300, 60)):
        store = store_on()
        stores.append((store, make(store, "db.c", *(doc(first + n, a=0) for n in range(count)))))
    whole = parse_pipeline([bson.encode({"$sample": {"size": 12}})])
    split = split_pipeline(whole)
    half, merging = (parse_written(stages, PLAIN) for stages in (split.shard_stages, split.merge_stages))
    environment = Environment(clock=time.monotonic, rng=dice.random)
    met: Counter[int] = Counter()
    firsts: Counter[bool] = Counter()
    for _ in range(600):
        sent = drawn_documents(stores[0][1], FindQuery(), half, stores[0][0].engine, None, dice.random) or []
        assert len(sent) == 12
        rest = list(stores[1][1].documents(stores[1][0].engine))
        sent += drain(half.open(DocumentList(rest), environment))
        found = [bson.decode(raw)["_id"] for raw in drain(merging.open(DocumentList(sent), environment))]
        assert len(set(found)) == 12
        met.update(found)
        firsts[found[0] >= 300] += 1
    assert len(met) == 360
    assert max(met.values()) < 45
    assert abs(sum(met[n] for n in range(300, 360)) - 1200) < 150
    assert abs(firsts[True] - 100) < 40


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
