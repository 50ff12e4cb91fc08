"""Requests about more than documents: cursors in batches, definitions that come and go, what a process tells of itself;
and what only a set has: read concerns with times, transactions, change streams.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.read_concern import ReadConcern

from scripts.shop_requests import CUSTOMERS, Database, Document, Shape

Session = ClientSession
_WATCHED = 10
"""Customers that there are also where there is little else."""
_Act = Callable[[Database, random.Random, Session], object]


def _customer(rng: random.Random) -> Document:
    return {"customer": rng.randrange(CUSTOMERS)}


def _identity(rng: random.Random) -> Document:
    return {"_id": rng.randrange(CUSTOMERS)}


def _in_batches(name: str, size: int, count: int = 10, **options: Any) -> Shape:
    return Shape(name, lambda db, rng: list(db.orders.find({"_id": {"$lt": 1_000}}, batch_size=size, **options)), count)


def _stages_in_batches(db: Database, rng: random.Random) -> object:
    stages = [{"$match": {"_id": {"$lt": 1_000}}}, {"$project": {"name": 1, "price": 1}}]
    return list(db.orders.aggregate(stages, batchSize=100))


def _stages_after_nothing(db: Database, rng: random.Random) -> object:
    stages = [{"$match": _customer(rng)}, {"$project": {"name": 1, "price": 1}}]
    return list(db.orders.aggregate(stages, batchSize=0))


def _listed(db: Database, rng: random.Random) -> object:
    return list(db.orders.find({"_id": {"$in": rng.sample(range(CUSTOMERS), 500)}}, batch_size=100))


def _left(db: Database, rng: random.Random) -> object:
    with db.orders.find(batch_size=2) as cursor:
        return cursor.next()


def _made_and_dropped(db: Database, rng: random.Random) -> object:
    db.passing.insert_one({"_id": 1})
    return db.passing.drop()


def _indexed_and_dropped(db: Database, rng: random.Random) -> object:
    db.few.create_index("name")
    return db.few.drop_index("name_1")


def _renamed(db: Database, rng: random.Random) -> object:
    db.few.rename("many")
    return db.many.rename("few")


def _told(name: str, value: Any = 1) -> Shape:
    return Shape(name, lambda db, rng: db.client.admin.command(name, value), 50)


def _staged(name: str, **options: Any) -> Shape:
    return Shape(name, lambda db, rng: list(db.orders.aggregate([{name: options}])), 50)


SHAPES: tuple[Shape, ...] = (
    _in_batches("1,000 in batches of 10", 10),
    _in_batches("1,000 in batches of 100", 100),
    _in_batches("1,000 in batches of 100, projected", 100, projection={"name": 1}),
    _in_batches("1,000 in batches of 100, sorted", 100, sort=[("price", 1)]),
    Shape("stages in batches of 100", _stages_in_batches, 10),
    Shape("stages, the first batch of none", _stages_after_nothing, 100),
    Shape("$in of 500 in batches of 100", _listed, 20),
    Shape("a cursor that is left", _left),
    Shape("hello", lambda db, rng: db.command("hello")),
    _told("serverStatus"),
    _told("currentOp"),
    _told("listDatabases"),
    _staged("$indexStats"),
    _staged("$planCacheStats"),
    _staged("$collStats", count={}),
    Shape("listCollections of a name", lambda db, rng: list(db.list_collections(filter={"name": "orders"}))),
    Shape("an index that exists", lambda db, rng: db.orders.create_index("customer", name="customer"), 50),
    Shape("an index of 100, dropped", _indexed_and_dropped, 20),
    Shape("a collection, dropped", _made_and_dropped, 20),
    Shape("a database that is not there, dropped", lambda db, rng: db.client.drop_database("nothing"), 50),
    Shape("renamed twice", _renamed, 20),
)


def _at(level: str) -> Shape:
    concern = ReadConcern(level)

    def send(db: Database, rng: random.Random) -> object:
        return db.get_collection("customers", read_concern=concern).find_one(_identity(rng))

    # The reference takes long over a linearizable read.
    return Shape(f"by _id, {level}", send, 5 if level == "linearizable" else 200)


def _counted(db: Database, rng: random.Random) -> object:
    return db.get_collection("orders", read_concern=ReadConcern("majority")).count_documents(_customer(rng))


def _grouped(db: Database, rng: random.Random) -> object:
    stages = [{"$match": _customer(rng)}, {"$group": {"_id": "$status", "sum": {"$sum": "$price"}}}]
    return list(db.get_collection("orders", read_concern=ReadConcern("snapshot")).aggregate(stages))


def _causal(db: Database, rng: random.Random) -> object:
    with db.client.start_session(causal_consistency=True) as session:
        asked = _identity(rng)
        db.customers.update_one(asked, {"$inc": {"visits": 1}}, session=session)
        return db.customers.find_one(asked, session=session)


def _of_a_snapshot(db: Database, rng: random.Random) -> object:
    with db.client.start_session(snapshot=True) as session:
        return [db.customers.find_one(_identity(rng), session=session) for _ in range(5)]


def _transaction(name: str, act: _Act, count: int = 50, *, ends: str = "commit_transaction") -> Shape:
    def send(db: Database, rng: random.Random) -> object:
        with db.client.start_session() as session:
            session.start_transaction()
            act(db, rng, session)
            return getattr(session, ends)()

    return Shape(f"transaction: {name}", send, count)


def _read_and_changed(db: Database, rng: random.Random, session: Session) -> object:
    asked = _identity(rng)
    db.customers.find_one(asked, session=session)
    return db.customers.update_one(asked, {"$inc": {"visits": 1}}, session=session)


def _inserted(db: Database, rng: random.Random, session: Session) -> object:
    return db.plain.insert_one({"value": rng.random()}, session=session)


def _watched(name: str, count: int, *stages: Document, **options: Any) -> Shape:
    """A stream is opened, and told of a change."""

    def send(db: Database, rng: random.Random) -> object:
        with db.customers.watch(list(stages), **options) as stream:
            db.customers.update_one({"_id": rng.randrange(_WATCHED)}, {"$set": {"seen": rng.random()}})
            return stream.next()

    return Shape(f"change stream: {name}", send, count)


SHAPES_OF_SETS: tuple[Shape, ...] = (
    *(_at(level) for level in ("local", "majority", "snapshot", "linearizable")),
    Shape("counted, majority", _counted),
    Shape("grouped, snapshot", _grouped),
    Shape("an update and a causal read", _causal, 100),
    Shape("five reads of a snapshot", _of_a_snapshot, 50),
    _transaction("an insert", _inserted),
    _transaction("an insert, aborted", _inserted, ends="abort_transaction"),
    _transaction("a find and an update", _read_and_changed),
    _watched("an update", 50),
    _watched("an update, looked up", 50, full_document="updateLookup"),
    _watched("an update that matches", 50, {"$match": {"operationType": "update"}}),
)
"""What is sent to members of sets only."""
