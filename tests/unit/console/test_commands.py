"""Commands through the console: as any client's, no more and no less."""

from __future__ import annotations

import asyncio
import json

import bson
import pytest

from docstore.console import handlers
from docstore.errors import CommandError
from tests.harness.dispatching import command
from tests.harness.serving import run, until
from tests.unit.console.served import console

HTML = "<img src=x onerror=alert(1)>"


def test_a_command_has_the_reply_that_any_client_gets() -> None:
    async def scenario() -> None:
        async with console() as served:
            documents = [{"_id": 1, HTML: {"$date": {"$numberLong": "-62135596800001"}}, "n": {"$numberLong": "5"}}]
            assert (await served.command({"insert": "orders", "documents": documents}))["n"] == {"$numberInt": "1"}
            found = await served.command({"find": "orders", "filter": {"n": {"$gt": 4}}})
            expected = {"_id": {"$numberInt": "1"}, HTML: {"$date": {"$numberLong": "-62135596800001"}}}
            assert found["cursor"]["firstBatch"] == [{**expected, "n": {"$numberLong": "5"}}]
            refused = await served.command({"find": "orders", "filter": {"$no": 1}})
            assert (refused["ok"], refused["codeName"]) == ({"$numberDouble": "0.0"}, "BadValue")
            assert (await served.command({"hello": 1, "$db": "other"}))["ok"] == {"$numberDouble": "1.0"}

    run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b'{"db": "shop"}', b'{"db": 1, "command": {"ping": 1}}', b'{"db": "shop", "command": {}}',
        b'{"db": "shop", "command": [1]}', b'{"db": "shop", "command": {"x": {"$oid": "1"}}}',
        b'{"db": "shop", "command": {"x": {"$binary": 1}}}', b'{"db": "shop", "command": {"x": {"$numberLong": "y"}}}',
        b'{"db": "shop", "command": {"x": {"$date": {"$numberLong": "z"}}}}', b"\xff", b"[" * 100_000,
        b'{"db": "shop", "command": {"ping": ' + b'{"a":' * 3000 + b"1" + b"}" * 3002,
        b'{"db": "shop", "command": {"ping": 123456789012345678901234567890}}',
        b'{"db": "shop", "command": {"a\\u0000b": 1}}', b'{"db": "shop", "command": {"ping": "\\ud800"}}',
        b'{"db": "\\ud800", "command": {"ping": 1}}',
    ],
)  # fmt: skip
def test_what_is_no_command_is_refused(body: bytes) -> None:
    async def scenario() -> None:
        async with console() as served:
            answer = await served.ask("/api/command", body)
            assert (answer.status, list(answer.told)) == (400, ["error"])

    run(scenario())


def test_a_command_in_bson_has_its_reply_in_bson() -> None:
    async def scenario() -> None:
        async with console(auth=True) as served:
            told = {"Content-Type": "application/bson", "Cookie": await served.log_in("reader")}
            answer = await served.ask("/api/bson", bson.encode({"count": "orders", "$db": "shop"}), headers=told)
            assert (answer.status, answer.headers["content-type"]) == (200, "application/bson")
            assert bson.decode(answer.body)["n"] == 0
            refused = await served.ask("/api/bson", bson.encode({"count": "orders", "$db": "other"}), headers=told)
            assert bson.decode(refused.body)["codeName"] == "Unauthorized"
            whole = bson.encode({"ping": 1, "$db": "shop"})
            for broken in (b"", b"\5\0\0\0", whole[:-1], whole + b"\0", b"\xff\xff\xff\xff" + whole[4:], b"\0" * 5):
                assert (await served.ask("/api/bson", broken, headers=told)).status == 400
            # What stands in a document of the right length is for the command to refuse, as from any client.
            for odd in (b"\5\0\0\0\0", bson.encode({"ping": 1}), whole[:4] + b"\x7f" + whole[5:]):
                answer = await served.ask("/api/bson", odd, headers=told)
                assert bson.decode(answer.body)["ok"] == 0
            del told["Cookie"]
            assert (await served.ask("/api/bson", whole, headers=told)).status == 401

    run(scenario())


def test_a_reply_of_many_bytes_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "LARGEST_REPLY", 1000)

    async def scenario() -> None:
        async with console(command("long", lambda context, arguments: {"text": "x" * 1000})) as served:
            answer = await served.ask("/api/command", {"db": "shop", "command": {"long": 1}})
            assert answer.status == 413
            assert "ask for less" in answer.told["error"]

    run(scenario())


def test_a_command_ends_with_its_client_with_its_time_and_with_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def wait(context: object, arguments: object) -> dict[str, int]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return {}

    async def scenario() -> None:
        async with console(command("wait", wait)) as served:
            body = json.dumps({"db": "shop", "command": {"wait": 1}}).encode()
            _, writer = await served.connect()
            head = f"POST /api/command HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
            writer.write(head.encode() + b"X-Docstore-Console: 1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await until(lambda: len(served.node.services.operations))
            (shown,) = served.node.services.operations
            assert shown.context.connection.application_name == "console"
            writer.close()
            await until(lambda: ended == ["ended"] and not len(served.node.services.operations))
            monkeypatch.setattr(handlers, "COMMAND_SECONDS", 0.05)
            assert (await served.command({"wait": 1}))["codeName"] == "MaxTimeMSExpired"
            monkeypatch.setattr(handlers, "COMMAND_SECONDS", 60)
            last = asyncio.create_task(served.ask("/api/command", {"db": "shop", "command": {"wait": 1}}))
            await until(lambda: len(served.node.services.operations))
        await asyncio.wait((last,))
        last.exception()
        assert len(ended) == 3

    run(scenario())


def test_a_kill_is_the_reply_of_the_killed() -> None:
    async def wait(context: object, arguments: object) -> dict[str, int]:
        await asyncio.Event().wait()
        return {}

    async def scenario() -> None:
        async with console(command("wait", wait)) as served:
            asked = asyncio.create_task(served.command({"wait": 1}))
            await until(lambda: len(served.node.services.operations))
            (operation,) = served.node.services.operations
            operation.kill(CommandError(11601, "operation was interrupted"))
            assert (await asked)["codeName"] == "Interrupted"

    run(scenario())


def test_only_so_many_commands_are_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "COMMANDS_AT_ONCE", 1)
    go_on = asyncio.Event()

    async def wait(context: object, arguments: object) -> dict[str, int]:
        await go_on.wait()
        return {}

    async def scenario() -> None:
        async with console(command("wait", wait)) as served:
            first = asyncio.create_task(served.command({"wait": 1}))
            await until(lambda: len(served.node.services.operations))
            assert (await served.ask("/api/command", {"db": "shop", "command": {"ping": 1}})).status == 503
            go_on.set()
            assert (await first)["ok"] == {"$numberDouble": "1.0"}
            assert (await served.command({"ping": 1}))["ok"] == {"$numberDouble": "1.0"}

    run(scenario())
