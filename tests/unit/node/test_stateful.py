"""Random writes and index operations, command by command, against a plain model: on both engines, and on a real mongod
where there is one.

The model is a list of documents in the order of their insertion. A unique index on `u` is the only constraint.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pymongo
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from docstore.storage import open_engine
from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode

Document = dict[str, Any]
Ask = Callable[[Document], Document]

IDS = st.integers(0, 12)
VALUES = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]), st.lists(st.integers(0, 3), max_size=3))
FIELDS = st.fixed_dictionaries({}, optional={"a": VALUES, "b": VALUES, "u": st.integers(0, 5)})
FILTERS = st.one_of(
    st.just({}),
    st.builds(lambda identity: {"_id": identity}, IDS),
    st.builds(lambda path, value: {path: value}, st.sampled_from("ab"), st.one_of(st.integers(0, 3), st.just("x"))),
    st.builds(lambda path, bound: {path: {"$gt": bound}}, st.sampled_from("ab"), st.integers(0, 3)),
)
CHANGES = st.one_of(
    st.builds(lambda value: {"$set": {"a": value}}, VALUES),
    st.builds(lambda value: {"$set": {"u": value}}, st.integers(0, 5)),
    st.just({"$unset": {"b": ""}}),
    st.just({"$inc": {"n": 1}}),
    st.builds(lambda value: {"$set": {"b": value, "n": 0}}, VALUES),
)
INDEXES: dict[str, Document] = {
    "a_1": {"key": {"a": 1}, "name": "a_1"},
    "b_1_a_-1": {"key": {"b": 1, "a": -1}, "name": "b_1_a_-1"},
    "sparse": {"key": {"b": 1}, "name": "sparse", "sparse": True},
    "partial": {"key": {"a": 1, "n": 1}, "name": "partial", "partialFilterExpression": {"n": {"$gt": 0}}},
    "hashed": {"key": {"n": "hashed"}, "name": "hashed"},
    "unique": {"key": {"u": 1}, "name": "unique", "unique": True, "sparse": True},
}
PARALLEL = 171


def matches(filter_: Document, document: Document) -> bool:
    for path, wanted in filter_.items():
        if path not in document:
            return False
        found = document[path]
        candidates = [*found, found] if isinstance(found, list) else [found]
        if isinstance(wanted, dict):
            if not any(isinstance(value, int) and value > wanted["$gt"] for value in candidates):
                return False
        elif wanted not in candidates:
            return False
    return True


def changed(document: Document, change: Document) -> Document:
    after = deepcopy(document)
    for field, value in change.get("$set", {}).items():
        after[field] = value
    for field in change.get("$unset", {}):
        after.pop(field, None)
    for field, by in change.get("$inc", {}).items():
        after[field] = after.get(field, 0) + by
    return after


class Model:
    """What the documents must be. Methods give what the reply must hold: `n`, `nModified` or an error's code."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.indexes: set[str] = set()

    def refused(self, document: Document, beside: list[Document]) -> int | None:
        """The code with which a document is refused among others."""
        if any(other["_id"] == document["_id"] for other in beside):
            return 11000
        if "b_1_a_-1" in self.indexes and all(isinstance(document.get(field), list) for field in "ab"):
            return PARALLEL
        if "unique" in self.indexes and "u" in document and any(other.get("u") == document["u"] for other in beside):
            return 11000
        return None

    def insert(self, document: Document) -> int | None:
        code = self.refused(document, self.documents)
        if code is None:
            self.documents.append(deepcopy(document))
        return code

    def update(self, filter_: Document, change: Document, multi: bool) -> tuple[int, int, int | None]:
        found = modified = 0
        for position, document in enumerate(self.documents):
            if not matches(filter_, document):
                continue
            after = changed(document, change)
            code = self.refused(after, self.documents[:position] + self.documents[position + 1 :])
            if code is not None:
                return found, modified, code
            found += 1
            modified += after != document
            self.documents[position] = after
            if not multi:
                break
        return found, modified, None

    def delete(self, filter_: Document) -> int:
        kept = [document for document in self.documents if not matches(filter_, document)]
        gone = len(self.documents) - len(kept)
        self.documents = kept
        return gone

    def can_index(self, name: str) -> bool:
        others = Model()
        others.indexes = {name}
        return all(others.insert(document) is None for document in self.documents)


class Machine(RuleBasedStateMachine):
    """Every command goes to all servers; each must answer as the model does."""

    servers: tuple[Callable[[], Ask], ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.asks = [server() for server in self.servers]
        self.run({"create": "c"})

    def run(self, command: Document) -> list[Document]:
        return [ask(command) for ask in self.asks]

    @rule(identity=IDS, fields=FIELDS)
    def insert(self, identity: int, fields: Document) -> None:
        document = {"_id": identity, **fields}
        code = self.model.insert(document)
        for reply in self.run({"insert": "c", "documents": [document]}):
            assert [error["code"] for error in reply.get("writeErrors", [])] == ([] if code is None else [code])

    @rule(identity=IDS, change=CHANGES)
    def update_one(self, identity: int, change: Document) -> None:
        expected = self.model.update({"_id": identity}, change, multi=False)
        self.check_update({"q": {"_id": identity}, "u": change}, expected)

    @precondition(lambda self: "unique" not in self.model.indexes and "b_1_a_-1" not in self.model.indexes)
    @rule(filter_=FILTERS, change=CHANGES)
    def update_many(self, filter_: Document, change: Document) -> None:
        expected = self.model.update(filter_, change, multi=True)
        self.check_update({"q": filter_, "u": change, "multi": True}, expected)

    def check_update(self, statement: Document, expected: tuple[int, int, int | None]) -> None:
        found, modified, code = expected
        for reply in self.run({"update": "c", "updates": [statement]}):
            if code is None:
                assert (reply["n"], reply["nModified"]) == (found, modified)
            else:
                assert [error["code"] for error in reply["writeErrors"]] == [code]

    @rule(filter_=FILTERS)
    def delete(self, filter_: Document) -> None:
        gone = self.model.delete(filter_)
        for reply in self.run({"delete": "c", "deletes": [{"q": filter_, "limit": 0}]}):
            assert reply["n"] == gone

    @rule(identity=IDS, change=CHANGES)
    def find_and_modify(self, identity: int, change: Document) -> None:
        before = next((deepcopy(found) for found in self.model.documents if found["_id"] == identity), None)
        _, _, code = self.model.update({"_id": identity}, change, multi=False)
        for reply in self.run({"findAndModify": "c", "query": {"_id": identity}, "update": change}):
            assert reply.get("code") == code
            assert code is not None or reply["value"] == before

    @rule(name=st.sampled_from(sorted(INDEXES)))
    def create_index(self, name: str) -> None:
        possible = name in self.model.indexes or self.model.can_index(name)
        for reply in self.run({"createIndexes": "c", "indexes": [INDEXES[name]]}):
            assert (reply["ok"] == 1) == possible
        if possible:
            self.model.indexes.add(name)

    @rule(name=st.sampled_from(sorted(INDEXES)))
    def drop_index(self, name: str) -> None:
        for reply in self.run({"dropIndexes": "c", "index": name}):
            assert reply.get("code") == (None if name in self.model.indexes else 27)
        self.model.indexes.discard(name)

    @rule(filter_=FILTERS)
    def find(self, filter_: Document) -> None:
        expected = sorted((d for d in self.model.documents if matches(filter_, d)), key=lambda d: int(d["_id"]))
        for reply in self.run({"find": "c", "filter": filter_, "sort": {"_id": 1}}):
            assert reply["cursor"]["firstBatch"] == expected
        for reply in self.run({"count": "c", "query": filter_}):
            assert reply["n"] == len(expected)

    @invariant()
    def everything_is_there(self) -> None:
        for reply in self.run({"find": "c"}):
            assert reply["cursor"]["firstBatch"] == self.model.documents

    def teardown(self) -> None:
        for reply in self.run({"validate": "c", "full": True}):
            assert reply["valid"]
            assert (reply["nrecords"], reply["nIndexes"]) == (len(self.model.documents), len(self.model.indexes) + 1)


def local(loop: asyncio.AbstractEventLoop, name: str) -> Callable[[], Ask]:
    def server() -> Ask:
        directory = tempfile.mkdtemp(dir=DIRECTORY) if name == "rocksdb" else ""

        async def make() -> LocalNode:
            return LocalNode(engine=open_engine(name, directory))

        node = loop.run_until_complete(make())
        return lambda command: loop.run_until_complete(node.reply(command))

    return server


DIRECTORY: str | None = None


def run_machine(servers: tuple[Callable[[], Ask], ...], examples: int) -> None:
    machine = type("Machine", (Machine,), {"servers": servers})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None))


def test_both_engines_do_what_the_model_does(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.node.test_stateful.DIRECTORY", str(tmp_path))
    loop = asyncio.new_event_loop()
    try:
        run_machine((local(loop, "inMemory"), local(loop, "rocksdb")), 25)
    finally:
        loop.close()


@pytest.mark.reference
def test_a_real_server_does_what_the_model_does(tmp_path: Any) -> None:
    """The model itself is right, then; and so is the node beside it."""
    loop = asyncio.new_event_loop()
    try:
        with reference_server(tmp_path) as port, pymongo.MongoClient("127.0.0.1", port) as client:
            database = client["stateful"]

            def real() -> Ask:
                database.drop_collection("c")
                return lambda command: dict(database.command(command, check=False))

            run_machine((local(loop, "inMemory"), real), 25)
    finally:
        loop.close()
