"""Random filters over random documents, judged by a real server and here."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import bson
import pymongo
import pytest
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from docstore.errors import CommandError
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from tests.harness.reference import reference_server
from tests.unit.query import random_schemas

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection[Any]]:
    with reference_server(tmp_path_factory.mktemp("reference")) as port:
        client: pymongo.MongoClient[Any] = pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=30_000)
        with client:
            yield client["query"]["c"]


def matched(condition: dict[str, Any], documents: list[bytes]) -> list[int] | int:
    """The positions of the documents that match, or the error's code."""
    try:
        predicate = compile_filter(parse_filter(bson.encode(condition)))
    except CommandError as error:
        return int(error.code)
    return [position for position, document in enumerate(documents) if predicate.matches(document)]


def wanted(condition: dict[str, Any], collection: Collection[Any]) -> list[int] | int:
    try:
        return [found["_id"] for found in collection.find(condition, {"_id": 1}, sort=[("_id", 1)], batch_size=1000)]
    except OperationFailure as error:
        return error.code or 0


def test_schemas_hold_for_the_same_documents(collection: Collection[Any]) -> None:
    rnd = Random(7)
    documents = [{"_id": position, **random_schemas.document(rnd, 3)} for position in range(80)]
    collection.drop()
    collection.insert_many(documents)
    raws = [bson.encode(document) for document in documents]
    for _ in range(1000):
        condition = {"$jsonSchema": random_schemas.schema(rnd)}
        assert matched(condition, raws) == wanted(condition, collection), condition
