"""Whatever stands in a declared field of a command is answered by the command or refused with a reason."""

from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from docstore.commands.declaration import Command
from docstore.commands.dispatch import Pending, StreamedReply
from docstore.commands.envelope import ENVELOPE_FIELDS
from docstore.node.commands import COMMANDS
from docstore.wire.message import Message
from tests.unit.node.local import LocalNode

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
FAR = DatetimeMS(2**62)
NESTED: Any = {"a": 1}
for _ in range(150):
    NESTED = {"a": [NESTED]}
EXTREMES: tuple[Any, ...] = (
    None, True, 0, -1, 7, 2**31 - 1, Int64(2**31), Int64(-(2**63)), Int64(2**63 - 1), 0.5, -1e300, float("nan"),
    float("inf"), Decimal128("1E6144"), Decimal128("NaN"), "", "a", "a.b", "$a", "/" + "x" * 5000, "x" * 300, "\u00e9",
    {}, {"a": FAR}, {"$a": 1}, {"": ""}, {"id": Binary(bytes(16), 4)}, {"id": FAR}, {"counter": FAR, "processId": FAR},
    {"counter": Int64(1), "processId": ObjectId(bytes(12))}, {"clusterTime": FAR}, {"level": FAR}, {"w": FAR},
    {"w": Int64(2**62)}, {"mode": FAR}, {"a": {"$gt": FAR}}, {"q": {}, "u": {}}, {"key": {"a": FAR}, "name": FAR},
    NESTED, [], [None], [FAR], [Int64(2**40)], [-1], [Int64(-(2**63))], [{}], [{"a": FAR}], [{"q": {}, "u": {}}],
    [{"q": {"_id": FAR}, "limit": 1}], [{"$match": FAR}], [{"$limit": Int64(2**62)}], [{"key": {"a": 1}, "name": FAR}],
    [[]], Binary(b""), Binary(bytes(16), 4), Binary(bytes(15), 4), ObjectId(bytes(12)), FAR, DatetimeMS(-(2**63)),
    Regex("(", ""), Regex("a", "i"), Code("x"), Code("x", {"a": 1}), Timestamp(2**32 - 1, 2**32 - 1), MinKey(),
)  # fmt: skip
LEFT_OUT = frozenset(("shutdown", "fsync", "fsyncUnlock", "validate", "connPoolStats", "repairDatabase"))
"""What stops the process, or everybody's writes."""
PLAIN = {"filter": {}, "query": {}, "pipeline": [], "cursor": {}, "key": "a", "documents": [{"a": 1}]}


def _value_of(command: Command) -> Any:
    return "c" if command.names_collection else 1


def requests_of(command: Command) -> list[bytes]:
    """Requests for a command, each with an extreme value in one field."""
    required = {name: PLAIN.get(name, "c") for name in command.required}
    base = {command.name: _value_of(command), **required}
    fields = [command.name, *command.by_name, *sorted(ENVELOPE_FIELDS - {"$db", "help"})]
    found = []
    for field in fields:
        for value in EXTREMES:
            body = {**base, field: value, "$db": "admin" if command.admin_only else "test"}
            if field not in ("maxTimeMS", "maxAwaitTimeMS") and command.own_deadline:
                body.setdefault("maxTimeMS", 1)
            found.append(bson.encode(body))
    return found


async def _reply(node: LocalNode, request: bytes) -> dict[str, Any]:
    answered = node.dispatcher.handle(Message(1, 0, request), node.peer)
    if isinstance(answered, Pending):
        answered = await answered.finish()
    raw = answered.body if isinstance(answered, StreamedReply) else answered
    assert isinstance(raw, bytes)
    return bson.decode(raw, OPTIONS)


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each.name not in LEFT_OUT], ids=lambda each: each.name
)
def test_no_value_of_a_field_is_an_internal_error(command: Command) -> None:
    async def scenario() -> None:
        node = LocalNode(replicated=True)
        await node.reply({"insert": "c", "documents": [{"_id": 1, "a": 1}]})
        failed = []
        for request in requests_of(command):
            try:
                reply = await asyncio.wait_for(_reply(node, request), 1)
            except TimeoutError:
                continue
            except BaseException as error:
                failed.append((repr(error), request[:300]))
                continue
            if reply.get("code") == 1 or any(each.get("code") == 1 for each in reply.get("writeErrors", ())):
                failed.append((reply, request[:300]))
        assert not failed, "\n".join(map(str, failed[:10])) + f"\n{len(failed)}"

    asyncio.run(scenario())
