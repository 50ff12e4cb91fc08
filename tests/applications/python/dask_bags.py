"""Dask: a bag read in partitions by dask-mongo, which splits by `$bucketAuto`; a bag written; a reader by `_id`."""

import sys

import dask
import dask.bag
from dask_mongo import read_mongo, to_mongo
from pymongo import MongoClient

URI = sys.argv[1]


@dask.delayed
def read(low: int, high: int) -> list[dict]:
    with MongoClient(URI) as client:
        return list(client.dask_bags.orders.find({"_id": {"$gte": low, "$lt": high}}, {"amount": 1}))


dask.config.set(scheduler="threads")
with MongoClient(URI) as client:
    client.drop_database("dask_bags")
written = dask.bag.from_sequence(
    [{"_id": number, "who": f"user{number % 5}", "amount": number} for number in range(3000)], npartitions=4
)
to_mongo(written, "dask_bags", "orders", connection_kwargs={"host": URI})
options = {"connection_kwargs": {"host": URI}, "chunksize": 500}
bag = read_mongo("dask_bags", "orders", **options)
assert bag.npartitions == 6
assert bag.pluck("amount").sum().compute() == sum(range(3000))
matched = read_mongo("dask_bags", "orders", match={"who": "user2"}, **options)
assert sorted(document["_id"] for document in matched.compute()) == list(range(2, 3000, 5))
frequencies = dict(bag.pluck("who").frequencies().compute())
assert frequencies == {f"user{number}": 600 for number in range(5)}
pages = dask.bag.from_delayed([read(low, low + 1000) for low in range(0, 3000, 1000)])
assert pages.pluck("amount").max().compute() == 2999
with MongoClient(URI) as client:
    client.drop_database("dask_bags")
