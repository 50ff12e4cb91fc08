"""Requests that applications send, one of each shape, over the documents of `bench_shapes`."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import gridfs
import pymongo
from pymongo.operations import DeleteOne, InsertOne, UpdateOne

Database = pymongo.database.Database[dict[str, Any]]
Document = dict[str, Any]


class Shape(NamedTuple):
    """`send(database, rng)` makes one request; `count` of them are measured together."""

    name: str
    send: Callable[[Database, random.Random], object]
    count: int = 200


START = datetime.datetime(2024, 1, 1)
ORDERS = 20_000
CUSTOMERS = ORDERS // 10


def customer(rng: random.Random) -> Document:
    return {"customer": rng.randrange(CUSTOMERS)}


def category(rng: random.Random) -> Document:
    return {"category": f"category{rng.randrange(100)}"}


def dear(rng: random.Random) -> Document:
    return {**category(rng), "price": {"$gte": rng.uniform(0, 400)}}


def since(rng: random.Random) -> Document:
    return {"created": {"$gte": START + datetime.timedelta(days=rng.randrange(600))}}


def by_sku(rng: random.Random) -> Document:
    return {"sku": f"S{rng.randrange(ORDERS):06}"}


def by_id(rng: random.Random) -> Document:
    return {"_id": rng.randrange(ORDERS)}


Filter = Callable[[random.Random], Document]


def find(
    name: str, condition: Filter, projection: Document | None = None, /, count: int = 200, **options: Any
) -> Shape:
    """All that a find gives; `options` are those of pymongo's `find`."""
    return Shape(name, lambda db, rng: list(db.orders.find(condition(rng), projection, **options)), count)


def aggregate(name: str, condition: Filter, *stages: Document, count: int = 200) -> Shape:
    return Shape(name, lambda db, rng: list(db.orders.aggregate([{"$match": condition(rng)}, *stages])), count)


def update(name: str, condition: Filter, change: Callable[[random.Random], Any], **options: Any) -> Shape:
    return Shape(name, lambda db, rng: db.orders.update_one(condition(rng), change(rng), **options))


def modify(name: str, condition: Filter, change: Document, **options: Any) -> Shape:
    return Shape(name, lambda db, rng: db.orders.find_one_and_update(condition(rng), change, **options))


def near(rng: random.Random) -> Document:
    point = {"type": "Point", "coordinates": [rng.uniform(-18, 18), rng.uniform(-18, 18)]}
    return {"place": {"$near": {"$geometry": point, "$maxDistance": 100_000}}}


def within(rng: random.Random) -> Document:
    centre = [rng.uniform(-18, 18), rng.uniform(-18, 18)]
    return {"place": {"$geoWithin": {"$centerSphere": [centre, 0.01]}}}


def geo_near(db: Database, rng: random.Random) -> object:
    point = {"type": "Point", "coordinates": [rng.uniform(-18, 18), rng.uniform(-18, 18)]}
    return list(db.orders.aggregate([{"$geoNear": {"near": point, "distanceField": "far", "maxDistance": 100_000}}]))


_WORDS = ("the", "of", "an", "to", "in")


def text(rng: random.Random) -> Document:
    return {"$text": {"$search": rng.choice(_WORDS) + " order"}}


def insert(name: str, collection: str, more: Callable[[random.Random], Document]) -> Shape:
    return Shape(name, lambda db, rng: db[collection].insert_one(more(rng)))


def new_order(rng: random.Random) -> Document:
    number = rng.getrandbits(60)
    return {
        "sku": f"N{number}",
        "name": f"New {number}",
        "customer": 1_000_000 + number % 1_000_000,
        "category": "new",
        "price": number % 1000 / 8,
        "stock": 100,
        "status": "new",
        "created": START,
        "tags": ["one", "two", "three"],
        "place": {"type": "Point", "coordinates": [50.0 + number % 7, 50.0]},
        "about": "an order of things that nobody has asked for",
    }


def new_key(rng: random.Random) -> Document:
    return {"sku": f"U{rng.getrandbits(60)}"}


def twenty(db: Database, rng: random.Random) -> object:
    return db.orders.bulk_write([UpdateOne(by_sku(rng), {"$inc": {"version": 1}}) for _ in range(20)], ordered=False)


def mixed(db: Database, rng: random.Random) -> object:
    key = rng.getrandbits(60)
    return db.scratch.bulk_write(
        [InsertOne({"_id": key, "n": 1}), UpdateOne({"_id": key}, {"$inc": {"n": 1}}), DeleteOne({"_id": key})]
    )


def delete_by_key(db: Database, rng: random.Random) -> object:
    """The delete of an order that the same shape has just inserted, so that there are always as many."""
    order = new_order(rng)
    db.orders.insert_one(order)
    return db.orders.delete_one({"sku": order["sku"]})


def described(db: Database, rng: random.Random) -> object:
    parts = {"items": [{"sku": "I1", "quantity": 2}, {"sku": "I2", "quantity": 1}], "address": {"zip": "12345"}}
    return db.described.insert_many([{**new_order(rng), **parts} for _ in range(100)])


def thousand(db: Database, rng: random.Random) -> object:
    return db.scratch.insert_many([{"n": rng.getrandbits(40), "s": f"text {number}"} for number in range(1000)])


def stored_file(db: Database, rng: random.Random) -> object:
    bucket = gridfs.GridFSBucket(db)
    key = bucket.upload_from_stream("file", rng.randbytes(300_000))
    return bucket.open_download_stream(key).read()


def page_of(db: Database, rng: random.Random) -> object:
    facets = {"page": [{"$sort": {"price": 1}}, {"$limit": 10}], "total": [{"$count": "n"}]}
    return list(db.orders.aggregate([{"$match": category(rng)}, {"$facet": facets}]))


def union(db: Database, rng: random.Random) -> object:
    other = {"coll": "customers", "pipeline": [{"$match": {"_id": rng.randrange(CUSTOMERS)}}]}
    return list(db.orders.aggregate([{"$match": customer(rng)}, {"$unionWith": other}]))


OF_CUSTOMER = {"from": "customers", "localField": "customer", "foreignField": "_id", "as": "who"}
OF_CUSTOMER_BY_PIPELINE = {
    "from": "customers",
    "let": {"wanted": "$customer"},
    "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$wanted"]}}}, {"$project": {"name": 1}}],
    "as": "who",
}
OF_SAME_CATEGORY = {
    "from": "orders",
    "let": {"of": "$category"},
    "pipeline": [
        {"$match": {"$expr": {"$eq": ["$category", "$$of"]}}},
        {"$sort": {"price": -1}},
        {"$limit": 3},
        {"$project": {"price": 1}},
    ],
    "as": "dearest",
}
SALES = {"_id": "$status", "n": {"$sum": 1}, "mean": {"$avg": "$price"}, "most": {"$max": "$price"}}
ITEMS = {"_id": "$items.sku", "n": {"$sum": "$items.quantity"}}
LISTS = {"_id": "$status", "all": {"$push": "$price"}, "cities": {"$addToSet": "$address.city"}}
FIRST_AND_LAST = {
    "_id": {"city": "$address.city", "status": "$status"},
    "first": {"$first": "$price"},
    "last": {"$last": "$sku"},
}
BY_DAY = {"_id": {"$dateTrunc": {"date": "$created", "unit": "day"}}, "n": {"$sum": 1}}
DESCRIBED = {
    "day": {"$dateToString": {"date": "$created", "format": "%Y-%m-%d"}},
    "size": {"$cond": [{"$gt": ["$price", 500]}, "large", "small"]},
}
TOLD = {
    "label": {"$concat": ["$sku", ": ", {"$toUpper": "$name"}]},
    "first": {"$arrayElemAt": ["$tags", 0]},
    "many": {"$size": "$items"},
    "place": {"$ifNull": ["$address.city", "nowhere"]},
    "kind": {"$switch": {"branches": [{"case": {"$lt": ["$stock", 10]}, "then": "low"}], "default": "enough"}},
}
CHOSEN = {
    "totals": {
        "$map": {
            "input": {"$filter": {"input": "$items", "cond": {"$gt": ["$$this.quantity", 3]}}},
            "in": {"$multiply": ["$$this.price", "$$this.quantity"]},
        }
    }
}
RANKED = {
    "partitionBy": "$status",
    "sortBy": {"price": 1},
    "output": {"running": {"$sum": "$price", "window": {"documents": ["unbounded", "current"]}}},
}
ENGLISH = {"locale": "en", "strength": 2}
PRICED = {"boundaries": [0, 100, 300, 1_001], "groupBy": "$price", "output": {"n": {"$sum": 1}}}


def pair(rng: random.Random) -> Document:
    return {"$or": [by_sku(rng), by_sku(rng)]}


def five(rng: random.Random) -> Document:
    return {"customer": {"$in": [rng.randrange(CUSTOMERS) for _ in range(5)]}}


def words(rng: random.Random) -> list[str]:
    return [rng.choice(("abc", "qed", "xyz")), rng.choice(("def", "uvw"))]


SHAPES: tuple[Shape, ...] = (
    find("find by _id", by_id),
    find("find by a unique key", by_sku),
    find("find by a key, sorted, limit 20", category, sort=[("stock", 1)], limit=20),
    find("find by a range, sorted, limit 20", dear, sort=[("created", -1)], limit=20),
    find("find sorted by an index, limit 20", since, sort=[("created", 1)], limit=20),
    find("find by two keys, one without an index", lambda rng: {**customer(rng), "stock": {"$gt": 50}}),
    find("$or of two keys", pair),
    find("$in of five, sorted", five, sort=[("price", 1)]),
    find("$in of texts", lambda rng: {**customer(rng), "status": {"$in": ["new", "paid"]}}),
    find("$nin besides a key", lambda rng: {**category(rng), "status": {"$nin": ["new", "paid"]}}, limit=20),
    find("$exists besides a key", lambda rng: {**customer(rng), "address.zip": {"$exists": True}}),
    find("a page behind 200", lambda rng: {"status": "paid"}, sort=[("created", -1)], skip=200, limit=20),
    find("projection of nested fields", category, {"sku": 1, "address.city": 1, "items.sku": 1, "_id": 0}, limit=20),
    find("projection that leaves out", category, {"about": 0, "address.zip": 0}, limit=20),
    find("projection that an index covers", category, {"_id": 0, "category": 1, "price": 1}, limit=20),
    find("projection with $slice", category, {"items": {"$slice": 1}}, limit=20),
    find("projection with $elemMatch", category, {"items": {"$elemMatch": {"quantity": {"$gt": 4}}}}, limit=20),
    find("projection with an expression", category, {"total": {"$multiply": ["$price", "$stock"]}}, limit=20),
    find("$elemMatch, indexed", lambda rng: {"items": {"$elemMatch": {"sku": f"I{rng.randrange(5000)}"}}}),
    find("by an array of documents", lambda rng: {"items.sku": f"I{rng.randrange(5000)}", "items.quantity": 3}),
    find("$all", lambda rng: {"tags": {"$all": words(rng)}}),
    find("regex, the beginning of a key", lambda rng: {"sku": {"$regex": f"^S{rng.randrange(2000):04}"}}),
    find(
        "regex without regard to case",
        lambda rng: {"name": {"$regex": f"a{rng.randrange(2000)}$", "$options": "i"}},
        count=10,
    ),
    find("regex besides a key", lambda rng: {**category(rng), "about": {"$regex": "b.a"}}),
    find("$expr besides a key", lambda rng: {**category(rng), "$expr": {"$gt": ["$price", "$stock"]}}, limit=20),
    find(
        "$size and $mod besides a key", lambda rng: {**category(rng), "items": {"$size": 3}, "stock": {"$mod": [4, 1]}}
    ),
    find("a hint", category, hint="category_price", limit=20),
    find(
        "a scan, sorted, limit 10",
        lambda rng: {"address.zip": {"$gt": f"{rng.randrange(100):05}"}},
        sort=[("version", 1), ("stock", 1)],
        limit=10,
        count=10,
    ),
    find("a collation without an index", lambda rng: {"status": "PAID", **category(rng)}, collation=ENGLISH),
    find("sorted by a collation", category, collation=ENGLISH, sort=[("name", 1)], limit=20),
    find("1,000 by an index", lambda rng: {"customer": {"$lt": 100}}, count=20),
    find("all", lambda rng: {}, count=3),
    find("all, two fields", lambda rng: {}, {"sku": 1, "price": 1}, count=3),
    Shape("a view", lambda db, rng: list(db.ready.find(customer(rng)))),
    find("$near", near, limit=20),
    find("$geoWithin a circle", within),
    Shape("$geoNear", geo_near, 100),
    find("$text", text, limit=20),
    find("$text by score", text, {"score": {"$meta": "textScore"}}, sort=[("score", {"$meta": "textScore"})], limit=20),
    Shape("distinct by an index", lambda db, rng: db.orders.distinct("category"), 50),
    Shape("distinct with a filter", lambda db, rng: db.orders.distinct("address.city", category(rng))),
    Shape("countDocuments by a key", lambda db, rng: db.orders.count_documents(category(rng))),
    Shape("countDocuments by two", lambda db, rng: db.orders.count_documents({**category(rng), "stock": {"$lt": 50}})),
    Shape("estimatedDocumentCount", lambda db, rng: db.orders.estimated_document_count()),
    Shape("explain", lambda db, rng: db.orders.find(category(rng)).explain()),
    Shape("listCollections", lambda db, rng: db.list_collection_names()),
    Shape("listIndexes", lambda db, rng: list(db.orders.list_indexes())),
    Shape("dbStats", lambda db, rng: db.command("dbStats")),
    Shape("collStats", lambda db, rng: db.command("collStats", "orders")),
    Shape("ping", lambda db, rng: db.command("ping")),
    update("$set by _id", by_id, lambda rng: {"$set": {"stock": rng.randrange(50, 200)}}),
    update(
        "$set, $inc, $currentDate by a key",
        by_sku,
        lambda rng: {
            "$set": {"stock": rng.randrange(20, 90)},
            "$inc": {"version": 1},
            "$currentDate": {"changed": True},
        },
    ),
    update(
        "$push with $slice", by_sku, lambda rng: {"$push": {"marks": {"$each": [rng.randrange(100)], "$slice": -6}}}
    ),
    update("$addToSet", by_sku, lambda rng: {"$addToSet": {"marks": rng.randrange(100)}}),
    update("$pull", by_sku, lambda rng: {"$pull": {"marks": rng.randrange(100)}}),
    update(
        "array filters",
        by_sku,
        lambda rng: {"$inc": {"items.$[few].quantity": 1}},
        array_filters=[{"few.quantity": {"$lt": 4}}],
    ),
    update(
        "a position",
        lambda rng: {**by_sku(rng), "items.quantity": 3},
        lambda rng: {"$set": {"items.$.price": rng.randrange(500)}},
    ),
    update("a pipeline", by_sku, lambda rng: [{"$set": {"total": {"$multiply": ["$price", "$stock"]}}}]),
    update(
        "upsert that finds", by_sku, lambda rng: {"$inc": {"version": 1}, "$setOnInsert": {"stock": 50}}, upsert=True
    ),
    update(
        "upsert that inserts", new_key, lambda rng: {"$inc": {"version": 1}, "$setOnInsert": {"stock": 50}}, upsert=True
    ),
    Shape("updateMany of ten", lambda db, rng: db.orders.update_many(customer(rng), {"$inc": {"version": 1}}), 100),
    Shape("20 updates by a key, unordered", twenty, 50),
    Shape("insert, update and delete, ordered", mixed),
    modify("findAndModify by a key", by_sku, {"$inc": {"version": 1}}),
    modify("findAndModify, sorted", category, {"$inc": {"version": 1}}, sort=[("price", -1)]),
    modify(
        "findAndModify with a projection",
        by_sku,
        {"$inc": {"version": 1}},
        projection={"version": 1},
        return_document=True,
    ),
    insert("insert with all indexes", "orders", new_order),
    insert("insert without indexes", "scratch", new_order),
    insert("insert, capped", "newest", new_order),
    insert("insert, validated", "checked", new_order),
    Shape("insert of 100, with a schema", described, 20),
    Shape("insert and delete by a key", delete_by_key),
    Shape("insert of 1,000", thousand, 10),
    aggregate("$match and $group", category, {"$group": SALES}),
    aggregate("$group by two, $first and $last", category, {"$group": FIRST_AND_LAST}),
    aggregate("$group with lists", category, {"$group": LISTS}),
    aggregate("$unwind and $group", customer, {"$unwind": "$items"}, {"$group": ITEMS}),
    aggregate("$lookup of one", by_sku, {"$lookup": OF_CUSTOMER}, {"$unwind": "$who"}),
    aggregate("$lookup of 200", category, {"$lookup": OF_CUSTOMER}, count=50),
    aggregate("$lookup with let and a pipeline", by_sku, {"$lookup": OF_CUSTOMER_BY_PIPELINE}),
    aggregate("$lookup with let, sorted and limited", by_sku, {"$lookup": OF_SAME_CATEGORY}),
    Shape("$facet of a page and a count", page_of),
    Shape("$unionWith", union),
    aggregate("$addFields with $cond and a date", customer, {"$addFields": DESCRIBED}),
    aggregate("$project with texts and arrays", customer, {"$project": TOLD}),
    aggregate("$map and $filter", customer, {"$project": CHOSEN}),
    aggregate("$replaceRoot", customer, {"$replaceRoot": {"newRoot": "$address"}}),
    aggregate("$sort and $limit behind a key", category, {"$sort": {"name": 1}}, {"$limit": 10}),
    aggregate("$setWindowFields", category, {"$setWindowFields": RANKED}),
    aggregate("$count", category, {"$count": "n"}),
    aggregate("by day", lambda rng: {"customer": {"$lt": 100}}, {"$group": BY_DAY}, count=20),
    aggregate("$bucket", lambda rng: {"customer": {"$lt": 100}}, {"$bucket": PRICED}, count=20),
    aggregate("$sortByCount", lambda rng: {"customer": {"$lt": 100}}, {"$sortByCount": "$address.city"}, count=20),
    aggregate("all by texts", lambda rng: {}, {"$group": {"_id": "$address.city", "n": {"$sum": 1}}}, count=5),
    aggregate(
        "all sorted by texts", lambda rng: {}, {"$sort": {"address.street": 1}}, {"$project": {"sku": 1}}, count=3
    ),
    Shape("$sample", lambda db, rng: list(db.orders.aggregate([{"$sample": {"size": 10}}])), 20),
    Shape("GridFS: 300 KB written and read", stored_file, 20),
)
