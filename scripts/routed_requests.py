"""Requests that applications send through a router, beside those for one shard by its key (`saturate_routed`): over
several shards, over collections that are not sharded, and to what other collections hold.

`sales` is sharded by `customer`, `people` by `_id`, the halves of both on two shards; `towns` and `notes` are on the
primary shard alone. Every request gives back what it was answered, so that two servers can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pymongo
from bson.objectid import ObjectId
from pymongo.operations import DeleteOne, InsertOne, UpdateOne

Database = pymongo.database.Database[dict[str, Any]]
Document = dict[str, Any]

SHARDED = {"sales": "customer", "people": "_id", "fresh": "customer"}
_KEYS = ("customer", "category", "number")
INDEXES = {"sales": _KEYS, "notes": _KEYS, "fresh": ("customer",)}
_BATCH = 1_000
_TOWNS = 100
_CATEGORIES = 100


class Shape(NamedTuple):
    """`send(database, rng)` makes one request. `ordered`: its answer has one order."""

    name: str
    send: Callable[[Database, random.Random], object]
    count: int = 200
    ordered: bool = False


def fill(database: Database, documents: int) -> None:
    """The collections, the same on each server."""
    for name, fields in INDEXES.items():
        database.command("createIndexes", name, indexes=[{"key": {field: 1}, "name": f"{field}_1"} for field in fields])
    for start in range(0, documents, _BATCH):
        numbers = range(start, min(start + _BATCH, documents))
        for name in ("sales", "notes"):
            database[name].insert_many([document(number) for number in numbers])
        database.people.insert_many(
            [{"_id": number, "name": f"Name {number}", "town": number % 100} for number in numbers]
        )
    database.towns.insert_many([{"_id": number, "name": f"Town {number}"} for number in range(_TOWNS)])


def document(number: int) -> Document:
    """About 200 bytes; ten of a customer, a hundredth of all in a category."""
    return {
        "_id": number,
        "customer": number // 10,
        "category": f"category{number * 7 % _CATEGORIES}",
        "number": number * 31 % 100_003,
        "price": number * 13 % 1_000 / 10,
        "town": number % _TOWNS,
        "tags": [f"tag{number % 7}", f"tag{number % 11}"],
        "text": "some words of a document",
        "hits": 0,
    }


class Requests:
    """Those over so many documents, 1,000 or more."""

    def __init__(self, documents: int) -> None:
        self._documents = documents

    def shapes(self) -> tuple[Shape, ...]:
        """Those that read first."""
        return (*self._reads(), *self._pipelines(), *self._unsharded(), *self._writes(), *self._transactions())

    def _number(self, rng: random.Random) -> int:
        return rng.randrange(self._documents)

    def _id(self, rng: random.Random) -> Document:
        return {"_id": self._number(rng)}

    def _customer(self, rng: random.Random) -> Document:
        return {"customer": self._number(rng) // 10}

    def _customers(self, rng: random.Random) -> Document:
        """Some of both shards."""
        half = self._documents // 20
        low = half - rng.randrange(1, 6)
        return {"customer": {"$gte": low, "$lt": low + 6}}

    def _category(self, rng: random.Random) -> Document:
        return {"category": f"category{rng.randrange(_CATEGORIES)}"}

    def _by_number(self, rng: random.Random) -> Document:
        return {"number": self._number(rng) * 31 % 100_003}

    def _reads(self) -> tuple[Shape, ...]:
        def find(name: str, condition: Any, *, ordered: bool = False, count: int = 200, **options: Any) -> Shape:
            return Shape(name, lambda db, rng: list(db.sales.find(condition(rng), **options)), count, ordered)

        return (
            Shape("find_one by _id", lambda db, rng: db.sales.find_one(self._id(rng))),
            Shape("find_one by an index", lambda db, rng: db.sales.find_one(self._by_number(rng))),
            find("find by category", self._category),
            find("find by category, two fields", self._category, projection={"price": 1, "town": 1}),
            find("find by category, sorted, limit 20", self._category, sort=[("number", 1)], limit=20, ordered=True),
            find("find, sorted, projected, limit 20", self._category, sort=[("number", -1)], limit=20,
                 projection={"price": 1, "_id": 0}, ordered=True),
            find("find by category, sorted", self._category, sort=[("price", 1), ("_id", 1)], ordered=True),
            find("a page behind 40", self._category, sort=[("number", 1)], skip=40, limit=20, ordered=True),
            find("limit 5", self._category, limit=5, sort=[("_id", 1)], ordered=True),
            find("find by a range of the key", self._customers),
            find("find by $in of _id", lambda rng: {"_id": {"$in": [self._number(rng) for _ in range(10)]}}),
            find("find by $or", lambda rng: {"$or": [self._by_number(rng), self._by_number(rng)]}),
            find("batches of 20", self._category, batch_size=20),
            find("batches of 20, sorted", self._category, batch_size=20, sort=[("number", 1)], ordered=True),
            find("1,000 documents", lambda rng: {"price": {"$lt": 5}}, count=30),
            find("all", lambda rng: {}, count=3),
            find("all, sorted by number", lambda rng: {}, sort=[("number", 1)], count=3, ordered=True),
            find("batches of 20 of one shard", self._customer, batch_size=4),
            Shape("count by category", lambda db, rng: db.command("count", "sales", query=self._category(rng))["n"]),
            Shape("countDocuments by category", lambda db, rng: db.sales.count_documents(self._category(rng))),
            Shape("countDocuments by the key", lambda db, rng: db.sales.count_documents(self._customer(rng))),
            Shape("estimatedDocumentCount", lambda db, rng: db.sales.estimated_document_count()),
            Shape("distinct by category", lambda db, rng: db.sales.distinct("town", self._category(rng))),
            Shape("distinct by the key", lambda db, rng: db.sales.distinct("town", self._customer(rng))),
            Shape("listCollections", lambda db, rng: db.list_collection_names()),
            Shape("listIndexes", lambda db, rng: list(db.sales.list_indexes())),
        )  # fmt: skip

    def _pipelines(self) -> tuple[Shape, ...]:
        def run(name: str, condition: Any, *stages: Document, ordered: bool = False, count: int = 100) -> Shape:
            return Shape(
                name, lambda db, rng: list(db.sales.aggregate([{"$match": condition(rng)}, *stages])), count, ordered
            )

        group = {"$group": {"_id": "$town", "sum": {"$sum": "$price"}, "n": {"$sum": 1}, "most": {"$max": "$number"}}}
        sort, limit = {"$sort": {"number": -1}}, {"$limit": 10}
        town = {"$lookup": {"from": "towns", "localField": "town", "foreignField": "_id", "as": "places"}}
        person = {"$lookup": {"from": "people", "localField": "_id", "foreignField": "_id", "as": "persons"}}
        fifth = {"pipeline": [{"$match": {"_id": 5}}]}
        tags = {"$group": {"_id": "$tags", "n": {"$sum": 1}}}
        counted = [{"$group": {"_id": None, "n": {"$sum": 1}}}]
        facet = {"$facet": {"page": [sort, limit], "total": counted}}
        return (
            run("$match", self._category),
            run("$match by the key", self._customer),
            run("$group", self._category, group),
            run("$group by the key's match", self._customer, group),
            run("$group by the shard key", self._category, {"$group": {"_id": "$customer", "n": {"$sum": 1}}}),
            run("$group, $sort, $limit", self._category, group, {"$sort": {"sum": -1, "_id": 1}}, limit, ordered=True),
            run("$sort, $limit", self._category, sort, limit, ordered=True),
            run("$sort, $skip, $limit, $project", self._category, sort, {"$skip": 20}, limit,
                {"$project": {"price": 1}}, ordered=True),
            run("$project", self._category, {"$project": {"price": 1, "more": {"$add": ["$price", 1]}}}),
            run("$unwind, $group", self._category, {"$unwind": "$tags"}, tags),
            run("$count", self._category, {"$count": "n"}),
            run("$sortByCount", self._category, {"$sortByCount": "$price"}, *counted),
            run("$lookup of towns, one shard", self._customer, town),
            run("$lookup of towns", self._category, sort, limit, town, ordered=True),
            run("$lookup of people, one shard", self._customer, person),
            run("$lookup of people", self._category, sort, limit, person, ordered=True),
            run("$facet", self._category, facet),
            run("$facet by the key", self._customer, facet),
            run("$unionWith", self._customer, {"$unionWith": {"coll": "people", **fifth}}),
            run("$unionWith of towns", self._customer, {"$unionWith": {"coll": "towns", **fifth}}),
        )  # fmt: skip

    def _unsharded(self) -> tuple[Shape, ...]:
        """Requests to what is on one shard as a whole."""

        def find(name: str, condition: Any, *, ordered: bool = False, **options: Any) -> Shape:
            return Shape(f"notes: {name}", lambda db, rng: list(db.notes.find(condition(rng), **options)), 200, ordered)

        def run(name: str, condition: Any, *stages: Document, ordered: bool = False) -> Shape:
            return Shape(
                f"notes: {name}",
                lambda db, rng: list(db.notes.aggregate([{"$match": condition(rng)}, *stages])),
                200,
                ordered,
            )

        fifth = {"pipeline": [{"$match": {"_id": 5}}]}
        group = {"$group": {"_id": "$town", "sum": {"$sum": "$price"}, "n": {"$sum": 1}}}
        town = {"$lookup": {"from": "towns", "localField": "town", "foreignField": "_id", "as": "places"}}
        return (
            Shape("notes: find_one by _id", lambda db, rng: db.notes.find_one(self._id(rng))),
            find("find sorted, limit 20", self._category, sort=[("number", 1)], limit=20, ordered=True),
            find("batches of 20", self._category, batch_size=20),
            find("find projected", self._category, projection={"price": 1}),
            Shape("notes: count", lambda db, rng: db.command("count", "notes", query=self._category(rng))["n"]),
            Shape("notes: countDocuments", lambda db, rng: db.notes.count_documents(self._category(rng))),
            Shape("notes: estimatedDocumentCount", lambda db, rng: db.notes.estimated_document_count()),
            Shape("notes: distinct", lambda db, rng: db.notes.distinct("town", self._category(rng))),
            run("$match", self._customer),
            run("$group", self._category, group),
            run("$lookup", self._customer, town),
            run("$unionWith", self._customer, {"$unionWith": {"coll": "towns", **fifth}}),
            run("$facet", self._customer, {"$facet": {"page": [{"$limit": 3}], "n": [{"$count": "n"}]}}),
            Shape("notes: listIndexes", lambda db, rng: list(db.notes.list_indexes())),
            Shape("notes: insert_one", lambda db, rng: str(db.notes.insert_one({"a": 1}).acknowledged)),
            Shape("notes: insert_many of 100", lambda db, rng: self._inserted(db, "notes", 100), 30),
            Shape("notes: update_one by _id", lambda db, rng: _changed(db.notes.update_one(self._id(rng), _HIT))),
            Shape("notes: update_many", lambda db, rng: _changed(db.notes.update_many(self._customer(rng), _HIT))),
            Shape("notes: findAndModify", lambda db, rng: db.notes.find_one_and_update(self._id(rng), _HIT)),
            Shape("notes: bulkWrite of 20", lambda db, rng: _bulk(db.notes, self._updates(rng))),
            Shape("notes: insert, update and delete", lambda db, rng: _mixed(db.notes)),
        )  # fmt: skip

    def _updates(self, rng: random.Random) -> list[UpdateOne]:
        return [UpdateOne(self._id(rng), _HIT) for _ in range(20)]

    def _inserted(self, db: Database, collection: str, count: int) -> int:
        """New documents, half of them for each shard."""
        step = self._documents // 10 // count or 1
        documents = [{**document(number), "_id": ObjectId(), "customer": number * step} for number in range(count)]
        return len(db[collection].insert_many(documents).inserted_ids)

    def _writes(self) -> tuple[Shape, ...]:
        def update(name: str, condition: Any, *, many: bool = False, **options: Any) -> Shape:
            method = "update_many" if many else "update_one"
            return Shape(
                name, lambda db, rng: _changed(getattr(db.sales, method)(condition(rng), _HIT, **options)), 100
            )

        def several(name: str, condition: Any, collection: str = "sales", **options: Any) -> Shape:
            def send(db: Database, rng: random.Random) -> Document:
                return _bulk(db[collection], [UpdateOne(condition(rng), _HIT) for _ in range(20)], **options)

            return Shape(name, send, 50)

        def modify(db: Database, rng: random.Random) -> object:
            return db.sales.find_one_and_update(self._customer(rng), _HIT, sort=[("_id", 1)])

        def remove(db: Database, rng: random.Random) -> int:
            return db.fresh.delete_many({**self._customers(rng), "category": "category1"}).deleted_count

        return (
            Shape("insert_one", lambda db, rng: db.fresh.insert_one({**self._customer(rng), "a": 1}).acknowledged),
            Shape("insert_many of 100", lambda db, rng: self._inserted(db, "fresh", 100), 50),
            Shape("insert_many of 1,000", lambda db, rng: self._inserted(db, "fresh", 1_000), 10),
            update("update_one by the key", self._customer),
            update("update_one by _id", self._id),
            update("upsert by the key", lambda rng: {"customer": self._number(rng), "z": 1}, upsert=True),
            update("update_many by the key", self._customer, many=True),
            update("update_many of 60 by a range", self._customers, many=True),
            update("update_many by an index", self._by_number, many=True),
            several("bulkWrite of 20 by the key", self._customer),
            several("bulkWrite of 20, unordered", self._customer, ordered=False),
            several("bulkWrite of 20 by _id, unordered", self._id, ordered=False),
            several("people: bulkWrite of 20, unordered", self._id, "people", ordered=False),
            Shape("findAndModify by the key", modify),
            Shape("delete_many by a range", remove),
            Shape("delete_one by _id", lambda db, rng: db.fresh.delete_one({"_id": ObjectId()}).deleted_count),
            Shape("insert, update and delete", lambda db, rng: _mixed(db.fresh)),
        )

    def _transactions(self) -> tuple[Shape, ...]:
        def several(db: Database, rng: random.Random, *customers: int) -> object:
            with db.client.start_session() as session, session.start_transaction():
                for customer in customers:
                    db.sales.update_one({"customer": customer}, _HIT, session=session)
                return db.sales.find_one({"customer": customers[0]}, session=session, sort=[("_id", 1)]) is not None

        last = self._documents // 10 - 1
        half = last // 2
        return (
            Shape(
                "transaction on a shard", lambda db, rng: several(db, rng, rng.randrange(half), rng.randrange(half)), 50
            ),
            Shape(
                "transaction on two",
                lambda db, rng: several(db, rng, rng.randrange(half), last - rng.randrange(half)),
                50,
            ),
        )


_HIT = {"$inc": {"hits": 1}}


def _changed(result: pymongo.results.UpdateResult) -> Document:
    return {"matched": result.matched_count, "modified": result.modified_count}


def _bulk(collection: Any, statements: list[Any], **options: Any) -> Document:
    result = collection.bulk_write(statements, **options).bulk_api_result
    return {name: value for name, value in result.items() if name.startswith("n")}


def _mixed(collection: Any) -> Document:
    made = ObjectId()
    return _bulk(
        collection,
        [
            InsertOne({"_id": made, "customer": 1}),
            UpdateOne({"_id": made, "customer": 1}, _HIT),
            DeleteOne({"_id": made, "customer": 1}),
        ],
    )
