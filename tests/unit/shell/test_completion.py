"""Names for the tab key, with databases, collections and fields from a server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest

from shell.address import parse_address
from shell.bindings.screen import Screen
from shell.bindings.session import Session
from shell.deployment import Deployment
from tests.unit.shell.fake_server import FakeServer


def answer(command: dict[str, Any]) -> dict[str, Any]:
    name = next(iter(command))
    if name == "listDatabases":
        return {"ok": 1.0, "databases": [{"name": "shop"}, {"name": "shop-old"}, {"name": "local"}]}
    if name == "listCollections":
        return cursor([{"name": "posts"}, {"name": "posts.old"}, {"name": "people"}])
    if name == "find":
        return cursor(
            [{"_id": 1, "name": {"first": "a", "family": "b"}, "tags": [{"text": "x"}]}, {"_id": 2, "nick": 1}]
        )
    return {"ok": 1.0}


def cursor(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": 1.0, "cursor": {"id": 0, "ns": "shop.x", "firstBatch": documents}}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with FakeServer(answer) as server:
        session = Session(Deployment(parse_address(f"{server.address}/shop")), Screen(io.StringIO()))
        yield session
        session.close()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("db.po", ["posts"]),
        ("x = db.pe", ["people"]),
        ("db.posts.ol", ["old"]),
        ("db.posts.insertM", ["insertMany"]),
        ("db.posts.find({}).sor", []),
        ("db.getSib", ["getSiblingDB"]),
        ("rs.step", ["stepDown"]),
        ("sh.stopB", ["stopBalancer"]),
        ("NumberD", ["NumberDecimal"]),
        ("us", ["use"]),
        ("use sh", ["shop", "shop-old"]),
        ("use shop-", ["shop-old"]),
        ("show prof", ["profile"]),
        ("help mis", ["misc"]),
        ("db.posts.find({na", ["name"]),
        ("db.posts.find({n", ["name", "nick"]),
        ("db.posts.find({'name.fi", ["first"]),
        ("db.posts.find({_id: 1, tags.t", ["text"]),
        ("db.posts.find().sort({ni", []),
        ("db.posts.update({a: (1)}, {$set: {nic", ["nick"]),
        ("nosuch.x", []),
        ("db.nosuch.ins", ["insert", "insertMany", "insertOne"]),
    ],
)
def test_names(session: Session, text: str, names: list[str]) -> None:
    assert session.completions(text) == names
