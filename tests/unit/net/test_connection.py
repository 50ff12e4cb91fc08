"""One client connection: order, replies, back pressure, and its end."""

from __future__ import annotations

import asyncio
import itertools
import struct
import threading
from typing import Any

import bson
import pytest
from bson.int64 import Int64

from docstore.commands.declaration import Parameter, Type
from docstore.commands.exhaust import following_batch
from docstore.net import connection
from docstore.wire.compression import wrap
from docstore.wire.message import EXHAUST_ALLOWED, MORE_TO_COME, Message, decode_frame, encode_message
from tests.harness.dispatching import FakeHost, command, dispatcher_of
from tests.harness.fake_socket import FakeSocket
from tests.harness.frames import query
from tests.harness.serving import BareClient, run, serving, until

NUMBER = (Parameter("n", Type.INT),)
PING = command("ping", lambda context, arguments: {"n": arguments["n"]}, parameters=NUMBER)


class Gate:
    """A command that waits until the test opens it, and a record of what ran."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.ran: list[Any] = []
        self.ended: list[str] = []

    async def wait(self, context: Any, arguments: Any) -> dict[str, Any]:
        self.ran.append("wait")
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        return {"waited": True}

    def note(self, context: Any, arguments: Any) -> dict[str, Any]:
        self.ran.append(arguments["n"])
        return {}

    @property
    def commands(self) -> tuple[Any, ...]:
        return command("wait", self.wait), command("note", self.note, parameters=NUMBER), PING


def test_requests_of_one_connection_are_answered_in_order() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with serving(*gate.commands) as listener:
            client = await BareClient.connect(listener)
            notes = b"".join(client.frame({"note": 1, "n": n}) for n in range(3))
            await client.write(client.frame({"wait": 1}) + notes)
            other = await BareClient.connect(listener)
            assert (await other.ask({"ping": 1, "n": 5}))["n"] == 5
            assert gate.ran == ["wait"]
            gate.opened.set()
            assert [(await client.receive()).response_to for _ in range(4)] == [4, 1, 2, 3]
            assert gate.ran == ["wait", 0, 1, 2]
            await client.close()
            await other.close()

    run(scenario())


def test_a_request_cut_into_single_bytes_is_answered() -> None:
    async def scenario() -> None:
        async with serving(PING) as listener:
            client = await BareClient.connect(listener)
            for byte in client.frame({"ping": 1, "n": 3}):
                await client.write(bytes([byte]))
                await asyncio.sleep(0)
            assert bson.decode((await client.receive()).body)["n"] == 3
            await client.close()

    run(scenario())


def test_hello_in_the_legacy_opcode_is_answered_in_it() -> None:
    async def scenario() -> None:
        is_master = command("isMaster", lambda context, arguments: {"ismaster": True}, tolerant=True)
        async with serving(is_master) as listener:
            client = await BareClient.connect(listener)
            await client.write(query(bson.encode({"isMaster": 1}), request_id=9, namespace="admin.$cmd"))
            reply = await client.receive()
            assert (reply.opcode, reply.response_to, bson.decode(reply.body)["ok"]) == (1, 9, 1.0)
            await client.close()

    run(scenario())


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack("<iiii", 5, 0, 0, 0),
        struct.pack("<iiii", 2**31 - 1, 1, 0, 2013),
        struct.pack("<iiii", 16, 1, 0, 2002),
        b"GET / HTTP/1.1\r\n\r\n",
        # As a handshake of TLS begins: a request of 33 MB that nobody waits for.
        bytes.fromhex("1603010200010001fc0303"),
        struct.pack("<iiiiIB", 26, 1, 0, 2013, 0, 9) + b"\5\0\0\0\0",
    ],
)
def test_a_malformed_frame_ends_its_connection_and_no_other(garbage: bytes) -> None:
    async def scenario() -> None:
        async with serving(PING) as listener:
            good, bad = await BareClient.connect(listener), await BareClient.connect(listener)
            await bad.write(bad.frame({"ping": 1, "n": 1}) + garbage)
            assert bson.decode((await bad.receive()).body)["n"] == 1
            assert await bad.closed()
            assert (await good.ask({"ping": 1, "n": 2}))["n"] == 2
            await good.close()
            await bad.close()

    run(scenario())


def test_a_request_without_a_reply_leaves_the_next_reply_its_place() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with serving(*gate.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"note": 1, "n": 1}, flags=MORE_TO_COME)
            await client.send({"nosuch": 1}, flags=MORE_TO_COME)
            assert (await client.ask({"ping": 1, "n": 2}))["n"] == 2
            assert gate.ran == [1]
            await client.close()

    run(scenario())


def test_an_exhaust_stream_is_pushed_until_it_ends() -> None:
    def following(context: Any, reply: bytes) -> bytes | None:
        left = bson.decode(context.raw)["count"] - 1
        return bson.encode({"count": left, "$db": "test"}) if left else None

    async def counted(context: Any, arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"at": arguments.value}

    async def scenario() -> None:
        count = command("count", counted, value=Type.INT, following=following)
        async with serving(count, PING) as listener:
            client = await BareClient.connect(listener)
            await client.write(client.frame({"count": 3}, flags=EXHAUST_ALLOWED) + client.frame({"ping": 1, "n": 7}))
            replies = [await client.receive() for _ in range(4)]
            assert [bson.decode(reply.body).get("at") for reply in replies] == [3, 2, 1, None]
            assert [reply.more_to_come for reply in replies] == [True, True, False, False]
            assert replies[1].response_to == replies[0].request_id
            assert replies[3].response_to == 2
            await client.close()

    run(scenario())


def test_the_command_of_a_client_that_left_is_cancelled() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with serving(*gate.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"wait": 1})
            await until(lambda: gate.ran)
            await client.close()
            await until(lambda: gate.ended)
            assert gate.ended == ["cancelled"]
            await until(lambda: not len(listener.dispatcher.services.operations))

    run(scenario())


def test_what_needs_no_reply_is_done_although_its_client_left() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with serving(*gate.commands) as listener:
            client = await BareClient.connect(listener)
            await client.write(
                client.frame({"wait": 1}, flags=MORE_TO_COME)
                + client.frame({"note": 1, "n": 1}, flags=MORE_TO_COME)
                + client.frame({"note": 1, "n": 2})
            )
            await until(lambda: gate.ran)
            await client.close()
            await until(lambda: not listener.connections)
            gate.opened.set()
            await until(lambda: 1 in gate.ran)
            assert gate.ran == ["wait", 1]
            assert gate.ended == ["done"]

    run(scenario())


def test_kill_op_answers_the_operation_with_interrupted() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with serving(*gate.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"wait": 1})
            await until(lambda: gate.ran)
            operations = listener.dispatcher.services.operations
            assert operations.kill(next(iter(operations)).id)
            assert bson.decode((await client.receive()).body)["code"] == 11601
            assert (await client.ask({"ping": 1, "n": 1}))["ok"] == 1.0
            await client.close()

    run(scenario())


def test_max_time_ms_ends_a_command_that_waits() -> None:
    async def scenario() -> None:
        async with serving(*Gate().commands) as listener:
            client = await BareClient.connect(listener)
            assert (await client.ask({"wait": 1, "maxTimeMS": 20}))["code"] == 50
            await client.close()

    run(scenario())


def test_a_client_that_does_not_read_is_not_read_from_either() -> None:
    """What the server holds for it stays bounded, however much it asks for."""
    body = bson.encode({"x": b"x" * 100_000})

    async def scenario() -> None:
        served = []
        padding = (Parameter("pad", Type.ANY),)
        big = command("big", lambda context, arguments: served.append(1) or body, parameters=padding)
        async with serving(big, PING) as listener:
            client = await BareClient.connect(listener)
            frame = client.frame({"big": 1, "pad": b"p" * 10_000})
            sent = 0
            while True:
                client.writer.write(frame)
                try:
                    async with asyncio.timeout(0.2):
                        await client.writer.drain()
                except TimeoutError:
                    break
                sent += 1
                assert sent < 5000, "the server keeps reading"
            connection = next(iter(listener.connections))
            assert len(served) < 200
            assert connection.transport is not None
            assert connection.transport.get_write_buffer_size() < 2_000_000
            other = await BareClient.connect(listener)
            assert (await other.ask({"ping": 1, "n": 1}))["ok"] == 1.0
            assert len((await client.receive()).body) > 100_000
            client.writer.transport.abort()
            await other.close()

    run(scenario())


def test_a_reply_to_a_compressed_request_is_compressed_with_what_was_agreed() -> None:
    def agree(context: Any, arguments: Any) -> dict[str, Any]:
        context.connection.compressors = ("zlib",)
        return {}

    async def scenario() -> None:
        big = command("big", lambda context, arguments: {"x": "x" * arguments["n"]}, parameters=NUMBER)
        async with serving(command("hello", agree, tolerant=True), big) as listener:
            client = await BareClient.connect(listener)
            for compressor, expected in ((2, None), (1, None)):
                await client.write(wrap(client.frame({"big": 1, "n": 2000, "comment": "c" * 200}), compressor))
                assert (await client.receive()).compressor is expected
            await client.ask({"hello": 1})
            for size in (2000, 2_000_000):
                for compressor, expected in ((2, 2), (1, None)):
                    await client.write(wrap(client.frame({"big": 1, "n": size, "comment": "c" * 200}), compressor))
                    reply = await client.receive()
                    assert (reply.compressor, len(bson.decode(reply.body)["x"])) == (expected, size)
            large = client.frame({"big": 1, "n": 1, "comment": "ab" * 1_000_000})
            await client.write(wrap(large, 2) + client.frame({"big": 1, "n": 5}))
            assert [len(bson.decode((await client.receive()).body)["x"]) for _ in range(2)] == [1, 5]
            await client.close()

    run(scenario())


@pytest.mark.parametrize(("claimed", "on_the_loop"), [(4_000_000, False), (4_000, True)])
def test_a_frame_is_decompressed_off_the_loop_by_what_it_claims_to_hold(
    claimed: int, on_the_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the few bytes that arrive."""
    threads: list[threading.Thread] = []

    def noted(frame: bytes) -> Message:
        threads.append(threading.current_thread())
        return decode_frame(frame)

    async def scenario() -> None:
        monkeypatch.setattr(connection, "decode_frame", noted)
        async with serving(PING) as listener:
            client = await BareClient.connect(listener)
            frame = wrap(client.frame({"ping": 1, "n": 3, "comment": "c" * claimed}), 2)
            assert len(frame) < 8_000
            await client.write(frame)
            assert bson.decode((await client.receive()).body)["n"] == 3
            assert [thread is threading.main_thread() for thread in threads] == [on_the_loop]
            await client.close()

    run(scenario())


def test_connections_above_the_bound_are_closed_at_once() -> None:
    async def scenario() -> None:
        async with serving(PING, max_connections=1) as listener:
            first = await BareClient.connect(listener)
            assert (await first.ask({"ping": 1, "n": 1}))["ok"] == 1.0
            second = await BareClient.connect(listener)
            assert await second.closed()
            assert listener.statistics().refused == 1
            await first.close()
            await second.close()

    run(scenario())


def test_stopping_answers_what_waits_and_closes_every_connection() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with serving(*gate.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"wait": 1})
            await until(lambda: gate.ran)
            await listener.stop()
            reply = bson.decode((await client.receive()).body)
            assert (reply["code"], "topologyVersion" in reply) == (11600, False)
            assert await client.closed()
            assert not listener.connections
            await client.close()

    run(scenario())


def test_a_broken_invariant_reaches_the_loops_handler() -> None:
    async def broken(context: Any, arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        raise AssertionError("never")

    def broken_at_once(context: Any, arguments: Any) -> dict[str, Any]:
        raise AssertionError("never")

    async def scenario() -> None:
        caught: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: caught.append(context.get("exception")))
        async with serving(command("later", broken), command("now", broken_at_once)) as listener:
            for name in ("later", "now"):
                client = await BareClient.connect(listener)
                await client.send({name: 1})
                await until(lambda: caught)
                assert isinstance(caught.pop(), AssertionError)
                await client.close()

    asyncio.run(scenario())


def test_a_cursor_of_an_exhaust_stream_ends_with_its_connection() -> None:
    class Source:
        closed = False

        def close(self) -> None:
            self.closed = True

    async def more(context: Any, arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"cursor": {"id": Int64(arguments.value), "ns": "test.c", "nextBatch": ["x" * 1000]}}

    async def scenario() -> None:
        get_more = command("getMore", more, value=Type.LONG, following=following_batch)
        async with serving(get_more) as listener:
            source = Source()
            cursor = listener.dispatcher.services.cursors.register(source, "test.c")
            client = await BareClient.connect(listener)
            await client.send({"getMore": Int64(cursor.id)}, flags=EXHAUST_ALLOWED)
            assert all([(await client.receive()).more_to_come for _ in range(5)])
            await client.close()
            await until(lambda: source.closed)

    run(scenario())


def frame_of(body: dict[str, Any], request_id: int = 1) -> bytes:
    return encode_message(bson.encode({**body, "$db": "test"}), request_id=request_id)


def test_who_pipelines_much_holds_up_nobody_else() -> None:
    async def scenario() -> None:
        now = itertools.count()
        host = FakeHost()
        # Each look at the clock takes 0.1 ms.
        dispatcher = dispatcher_of(*Gate().commands, host=host, clock=lambda: next(now) / 10_000)
        async with serving(dispatcher=dispatcher) as listener:
            loop = asyncio.get_running_loop()
            sockets = [FakeSocket() for _ in range(50)]
            many = [connection.Connection(listener, loop) for _ in sockets]
            for each, its_socket in zip(many, sockets, strict=True):
                each.connection_made(its_socket)
                each.data_received(frame_of({"ping": 1, "n": 1}) * 5_000)
                assert its_socket.is_paused, "more is not read while so much waits"
            patient, its_socket = connection.Connection(listener, loop), FakeSocket()
            patient.connection_made(its_socket)
            patient.data_received(frame_of({"ping": 1, "n": 2}))
            await asyncio.sleep(0)
            answered = sum(len(its.sent) for its in sockets)
            assert len(its_socket.sent) == 1
            assert len(sockets) <= answered < 2 * len(sockets), "the first of each, and what all share"
            for each in (*many, patient):
                each.connection_lost(None)

    run(scenario())


def test_pipelined_requests_are_answered_to_the_last() -> None:
    async def scenario() -> None:
        async with serving(*Gate().commands) as listener:
            client = await BareClient.connect(listener)
            await client.write(b"".join(client.frame({"ping": 1, "n": n}) for n in range(3_000)))
            assert [bson.decode((await client.receive()).body)["n"] for _ in range(3_000)] == list(range(3_000))
            await client.close()

    run(scenario())
