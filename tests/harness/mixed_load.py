"""A mixed load of writes on one node, by clients that each know exactly what must be there.

A client owns its collections, so the plain model beside it says what the server holds; what was not acknowledged when
the server died may have happened or not, and `settle` accepts nothing else: a single write is there whole or not at
all, a write of many documents holds for each document whole or not at all (for an ordered insert: a prefix of them).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pymongo
from pymongo import ReturnDocument, WriteConcern
from pymongo.errors import PyMongoError

Documents = dict[Any, dict[str, Any]]
INDEXES = ([("g", 1)], [("tags", 1)], [("g", -1), ("n", 1)])


def connect(port: int) -> pymongo.MongoClient[dict[str, Any]]:
    return pymongo.MongoClient(
        "127.0.0.1", port, directConnection=True, retryWrites=False, retryReads=False,
        serverSelectionTimeoutMS=500, socketTimeoutMS=60_000,
    )  # fmt: skip


class Client(threading.Thread):
    """Writes from `start` until the server is gone. `held` is what was acknowledged, `wanted` what the write under way
    makes of it (None between two writes). `failure` is whatever else has ended it.
    """

    def __init__(self, port: int, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.rng = rng
        self.acknowledged = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with closing(connect(self.port)) as client:
                while True:
                    self.act(client)
                    self.acknowledged += 1
        except PyMongoError as error:
            if getattr(error, "code", None) is not None:
                self.failure = error
        except BaseException as error:
            self.failure = error

    def act(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        raise NotImplementedError

    def settle(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        """Hold the server against the model, after a restart; the model goes on from what was found."""
        raise NotImplementedError


class DocumentClient(Client):
    """Inserts, updates, deletes and findAndModify on one indexed collection."""

    def __init__(self, port: int, rng: random.Random, name: str, held: Documents | None = None) -> None:
        super().__init__(port, rng)
        self.collection_name = name
        self.held = held or {}
        self.wanted: Documents | None = None
        self.single = True
        self.next_id = max(self.held, default=0)

    def collection(self, client: pymongo.MongoClient[dict[str, Any]]) -> Any:
        concern = WriteConcern(w=1, j=self.rng.random() < 0.3)
        return client.load.get_collection(self.collection_name, write_concern=concern)

    def document(self) -> dict[str, Any]:
        self.next_id += 1
        rng = self.rng
        return {
            "_id": self.next_id, "g": rng.randrange(5), "n": rng.randrange(1000), "u": self.next_id,
            "tags": [rng.randrange(9) for _ in range(rng.randrange(4))], "filler": "x" * rng.randrange(400),
        }  # fmt: skip

    def act(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        kind = self.rng.choice(("insert", "insert", "insert_many", "inc", "set", "many", "delete", "replace", "fam"))
        kind = "delete_many" if self.rng.random() < 0.03 else kind
        target = self.rng.choice(list(self.held)) if self.held else 0
        group = self.rng.randrange(5)
        after = dict(self.held)
        collection = self.collection(client)
        self.single = kind not in ("insert_many", "many", "delete_many")
        if kind == "insert" or not self.held:
            document = self.document()
            after[document["_id"]] = document
            self.do(after, lambda: collection.insert_one(document))
        elif kind == "insert_many":
            documents = [self.document() for _ in range(self.rng.randrange(1, 60))]
            after.update((document["_id"], document) for document in documents)
            self.do(after, lambda: collection.insert_many(documents))
        elif kind == "many":
            after = {k: {**v, "n": v["n"] + 1, "tags": [group]} if v["g"] == group else v for k, v in after.items()}
            self.do(after, lambda: collection.update_many({"g": group}, {"$inc": {"n": 1}, "$set": {"tags": [group]}}))
        elif kind == "delete_many":
            after = {k: v for k, v in after.items() if v["g"] != group}
            self.do(after, lambda: collection.delete_many({"g": group}))
        elif kind == "delete":
            del after[target]
            self.do(after, lambda: collection.delete_one({"_id": target}))
        elif kind == "replace":
            after[target] = {**self.document(), "_id": target, "u": target}
            self.do(after, lambda: collection.replace_one({"_id": target}, after[target]))
        elif kind == "fam":
            after[target] = {**after[target], "g": group}
            found = self.do(after, lambda: collection.find_one_and_update(
                {"_id": target}, {"$set": {"g": group}}, return_document=ReturnDocument.AFTER))  # fmt: skip
            assert found == self.held[target], (found, self.held[target])
        else:
            after[target] = {**after[target], "n": after[target]["n"] + 1, "tags": [*after[target]["tags"], group]}
            change = {"$inc": {"n": 1}, "$push": {"tags": group}}
            self.do(after, lambda: collection.update_one({"_id": target}, change))

    def do(self, after: Documents, write: Any) -> Any:
        self.wanted = after
        result = write()
        self.held, self.wanted = after, None
        return result

    def settle(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        found: Documents = {row["_id"]: row for row in client.load[self.collection_name].find()}
        if self.wanted is None:
            assert found == self.held, difference(found, self.held)
        elif self.single:
            assert found in (self.held, self.wanted), difference(found, self.wanted)
        else:
            for key in self.held.keys() | self.wanted.keys() | found.keys():
                assert found.get(key) in (self.held.get(key), self.wanted.get(key)), (key, found.get(key))
            new = sorted(self.wanted.keys() - self.held.keys())
            there = [key in found for key in new]
            assert there == sorted(there, reverse=True), "an ordered insert left a gap"
        self.held, self.wanted = found, None
        self.next_id = max([self.next_id, *found])


class CatalogClient(Client):
    """Makes, fills, renames and drops collections, makes and drops indexes. A state is (indexes, documents) by name."""

    def __init__(self, port: int, rng: random.Random, held: dict[str, tuple[frozenset[str], int]]) -> None:
        super().__init__(port, rng)
        self.held = held
        self.wanted: dict[str, tuple[frozenset[str], int]] | None = None
        self.partly = False

    def act(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        rng, after = self.rng, dict(self.held)
        database = client.ddl
        name = f"c{rng.randrange(8)}"
        self.partly = False
        if name not in after:
            after[name] = (frozenset(), 0)
            self.do(after, lambda: database.command("create", name))
            return
        indexes, count = after[name]
        kind = rng.choice(("fill", "fill", "index", "index", "drop_index", "drop", "rename"))
        if kind == "fill":
            more = rng.randrange(1, 300)
            after[name] = (indexes, count + more)
            self.partly = True
            rows = [{"_id": count + n, "g": n % 5, "n": n, "tags": [n % 3, n % 7]} for n in range(more)]
            self.do(after, lambda: database[name].insert_many(rows))
        elif kind == "index":
            keys = rng.choice(INDEXES)
            after[name] = (indexes | {index_name(keys)}, count)
            self.do(after, lambda: database[name].create_index(keys))
        elif kind == "drop_index" and indexes:
            index = rng.choice(sorted(indexes))
            after[name] = (indexes - {index}, count)
            self.do(after, lambda: database[name].drop_index(index))
        elif kind == "drop":
            del after[name]
            self.do(after, lambda: database[name].drop())
        elif kind == "rename":
            target = f"c{rng.randrange(8)}"
            if target != name:
                after[target] = after.pop(name)
                self.do(after, lambda: database[name].rename(target, dropTarget=True))

    def do(self, after: dict[str, tuple[frozenset[str], int]], write: Any) -> None:
        self.wanted = after
        write()
        self.held, self.wanted = after, None

    def settle(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        found: dict[str, tuple[frozenset[str], int]] = {}
        for name in client.ddl.list_collection_names():
            indexes = frozenset(client.ddl[name].index_information()) - {"_id_"}
            ids = [row["_id"] for row in client.ddl[name].find({}, {"_id": 1})]
            assert ids == list(range(len(ids))), f"{name} has gaps"
            found[name] = (indexes, len(ids))
        allowed = [self.held, self.wanted or self.held]
        if self.partly and self.wanted is not None and found not in allowed:
            [name] = [name for name in found if found[name] != self.held[name]]
            assert self.held[name][1] <= found[name][1] <= self.wanted[name][1]
            allowed.append({**self.held, name: (self.held[name][0], found[name][1])})
        assert found in allowed, (found, allowed)
        self.held, self.wanted = found, None


def index_name(keys: list[tuple[str, int]]) -> str:
    return "_".join(f"{field}_{direction}" for field, direction in keys)


def difference(found: Documents, expected: Documents) -> Mapping[str, Any]:
    """What to show of two models that should be one."""
    keys = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
    return {"differ": len(keys), "found": found.get(keys[0]), "expected": expected.get(keys[0])}


def check_consistent(client: pymongo.MongoClient[dict[str, Any]]) -> int:
    """Every collection validates, its fast count is its number of documents; returns how many there are."""
    checked = 0
    for database in ("load", "ddl"):
        for name in client[database].list_collection_names():
            report = client[database].command("validate", name, full=True)
            assert report["valid"], report
            collection = client[database][name]
            assert collection.estimated_document_count() == report["nrecords"] == sum(1 for _ in collection.find())
            checked += 1
    return checked
