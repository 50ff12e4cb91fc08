"""Validators on a node in memory: what they let in and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop

VALIDATOR = {"a": {"$gt": 1}}
REFUSED: dict[str, Any] = {"insert": "c", "documents": [{"_id": 1, "a": 1}]}
LOWER = {"q": {"_id": 1}, "u": {"$set": {"a": 0}}}


def errors(reply: dict[str, Any]) -> list[int]:
    return [error["code"] for error in reply.get("writeErrors", [])]


def test_inserts_updates_and_upserts_must_match() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "validator": VALIDATOR})
        reply = await node.reply(REFUSED)
        assert errors(reply) == [Code.DocumentValidationFailure]
        assert reply["writeErrors"][0]["errInfo"]["failingDocumentId"] == 1
        await node.run({"insert": "c", "documents": [{"_id": 1, "a": 5}]})
        assert errors(await node.reply({"update": "c", "updates": [LOWER]})) == [121]
        upsert = {"q": {"_id": 2}, "u": {"$set": {"a": 0}}, "upsert": True}
        assert errors(await node.reply({"update": "c", "updates": [upsert]})) == [121]
        modify = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"a": 0}}}
        assert (await node.reply(modify))["code"] == 121
        found = await node.run({"find": "c"})
        assert found["cursor"]["firstBatch"] == [{"_id": 1, "a": 5}]

    loop(work())


@pytest.mark.parametrize("options", [{"validationAction": "warn"}, {"validationLevel": "off"}])
def test_a_validator_may_only_warn_or_be_off(options: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "validator": VALIDATOR, **options})
        assert errors(await node.reply(REFUSED)) == []
        assert errors(await node.reply({"update": "c", "updates": [LOWER]})) == []

    loop(work())


def test_a_client_can_bypass_the_validator() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "validator": VALIDATOR})
        assert errors(await node.reply(REFUSED | {"bypassDocumentValidation": True})) == []
        command = {"update": "c", "updates": [LOWER], "bypassDocumentValidation": True}
        assert errors(await node.reply(command)) == []

    loop(work())


def test_a_moderate_validator_leaves_documents_alone_that_never_matched() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "validator": VALIDATOR, "validationLevel": "moderate"})
        await node.run(REFUSED | {"bypassDocumentValidation": True})
        assert errors(await node.reply({"update": "c", "updates": [LOWER]})) == []
        await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 2}}}]})
        assert errors(await node.reply({"update": "c", "updates": [LOWER]})) == [121]

    loop(work())


@pytest.mark.parametrize(
    ("validator", "code"),
    [
        ({"$where": "1"}, 2),
        ({"a": {"$elemMatch": {"$where": "1"}}}, 2),
        ({"$text": {"$search": "a"}}, 2),
        ({"a": {"$near": [1, 2]}}, 5626500),
        ({"$sampleRate": 0.5}, 3040500),
        ({"$bogus": 1}, 2),
    ],
)
def test_what_needs_more_than_the_document_is_no_validator(validator: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        assert (await node.reply({"create": "c", "validator": validator}))["code"] == code

    loop(work())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"capped": True}, 72),
        ({"capped": True, "size": 0}, 51024),
        ({"size": 100}, 72),
        ({"max": 1}, 72),
        ({"autoIndexId": False}, 50001),
        ({"idIndex": {"key": {"a": 1}, "name": "a"}}, 2),
        ({"idIndex": {}}, 9),
        ({"storageEngine": {"foo": {}}}, 72),
        ({"storageEngine": {"foo": 1}}, 2),
        ({"indexOptionDefaults": {"foo": 1}}, 40415),
        ({"validationLevel": "x"}, 2),
        ({"expireAfterSeconds": 5}, 72),
        ({"temp": True}, 72),
    ],
)
def test_options_that_contradict_themselves_are_refused(options: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        assert (await node.reply({"create": "c", **options}))["code"] == code

    loop(work())


def test_options_are_listed_as_they_are_stored() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "validationAction": "warn", "validator": VALIDATOR, "size": 1000, "capped": 1})
        (found,) = (await node.run({"listCollections": 1}))["cursor"]["firstBatch"]
        assert list(found["options"].items()) == [
            ("capped", True), ("size", 1024), ("validator", VALIDATOR), ("validationAction", "warn"),
        ]  # fmt: skip

    loop(work())
