"""What broken, early, late and silent clients are answered, and that nobody else notices."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from docstore.net.tls.certificates import TlsCertificates
from docstore.options import TlsOptions
from docstore.options.values import TlsMode
from docstore.security.names import UserName
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.native.call_runner import MAX_CALLS
from docstore.widecolumn.native.connection import NativeConnection
from docstore.widecolumn.protocol.codec import MAX_BODY_BYTES, MAX_STRANGER_BODY_BYTES
from docstore.widecolumn.protocol.compression import LZ4
from docstore.widecolumn.protocol.envelopes import HEADER
from docstore.widecolumn.protocol.notation import Reader, string_map
from docstore.widecolumn.protocol.opcodes import V4, V5, Opcode
from docstore.widecolumn.protocol.requests import (
    AuthResponse,
    EventType,
    OptionsRequest,
    QueryParameters,
    QueryRequest,
    StartupRequest,
)
from docstore.widecolumn.protocol.segments import MAX_PAYLOAD_BYTES, encode_segment
from tests.harness.certificates import Authority
from tests.harness.serving import run, until
from tests.unit.node.logging_in import log_in
from tests.unit.widecolumn.native.native_node import VERSIONS, NativeServer, Refusal, native_server, refusal_in
from tests.unit.widecolumn.protocol.client_frames import envelope, request_bytes

ONE = QueryParameters(level=Level.ONE)
TABLE = "CREATE TABLE ks.t (k text PRIMARY KEY, v text)"


def on_a_server(act: Callable[[NativeServer], Awaitable[None]]) -> None:
    """Run a scenario; a client that was connected before is served after it."""

    async def scenario() -> None:
        async with native_server() as server:
            bystander = await server.client()
            await act(server)
            assert await bystander.is_alive()

    run(scenario())


@pytest.mark.parametrize("version", [0x42, 0x41, 6, 3, 2, 0x85])
def test_another_version_is_refused_and_the_connection_closed(version: int) -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(ready=False)
        client.write(envelope(version, 7, Opcode.OPTIONS, b""))
        reply = await client.receive()
        assert (reply.version, reply.stream) == (V5, 7 if version > 2 else 0)
        refusal = refusal_in(reply)
        assert refusal.code == 0x000A
        assert "unsupported protocol version" in refusal.text
        assert await client.closed()

    on_a_server(act)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_before_startup_and_a_second_one(version: int) -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(version, ready=False)
        for early in (QueryRequest("SELECT * FROM ks.t", ONE), AuthResponse(b"")):
            with pytest.raises(Refusal, match="expecting STARTUP or OPTIONS") as refusal:
                await client.ask(early)
            assert refusal.value.code == 0x000A
        assert await client.is_alive()
        for options in ({}, {"CQL_VERSION": "2.0.0"}, {"CQL_VERSION": "3.4.7", "COMPRESSION": "zip"}):
            with pytest.raises(Refusal):
                await client.start(options)
            client._is_segmented = False
        await client.start()
        with pytest.raises(Refusal, match="the connection is already initialized"):
            await client.ask(StartupRequest({"CQL_VERSION": "3.4.7"}))
        assert await client.is_alive()

    on_a_server(act)


@pytest.mark.parametrize("ready", [False, True])
def test_a_negative_length_closes_the_connection(ready: bool) -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(V4, ready=ready)
        client.write(HEADER.pack(V4, 0, 3, Opcode.STARTUP, -5))
        reply = await client.receive()
        assert (reply.stream, refusal_in(reply).code) == (3, 0x000A)
        assert await client.closed()

    on_a_server(act)


@pytest.mark.parametrize(
    ("version", "ready", "length"),
    [
        (V4, False, MAX_STRANGER_BODY_BYTES + 1),
        (V4, False, (1 << 31) - 1),
        (V4, True, MAX_BODY_BYTES + 1),
        (V5, True, MAX_BODY_BYTES + 1),
    ],
)
def test_a_long_body_is_refused_at_its_header_and_passed_over(version: int, ready: bool, length: int) -> None:
    """Drivers go on with the connection, so what else they have asked there is answered."""

    async def act(server: NativeServer) -> None:
        client = await server.client(version, ready=ready)
        header, piece = HEADER.pack(version, 0, 3, Opcode.QUERY, length), bytes(MAX_PAYLOAD_BYTES)

        def send(data: bytes) -> None:
            client.write(encode_segment(data, is_self_contained=False, compressed=False) if version == V5 else data)

        send(header)
        reply = await client.receive()
        assert (reply.stream, refusal_in(reply).code) == (3, 0x2200)
        assert refusal_in(reply).text.startswith(f"Request is too big: length {length} exceeds")
        [connection] = [one for one in server.listener.connections if one.peer.remote == client.address]
        assert isinstance(connection, NativeConnection)
        for start in range(0, min(length, 2 * MAX_BODY_BYTES), len(piece)):
            send(piece[: length - start])
            await client.drain()
            assert len(connection._codec) <= 4 << 20
        if length < 2 * MAX_BODY_BYTES:
            assert await client.is_alive()

    on_a_server(act)


def test_a_client_that_is_gone_before_it_is_registered_is_not_told_of_events() -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(V4)
        [connection] = [one for one in server.listener.connections if one.peer.remote == client.address]
        assert isinstance(connection, NativeConnection)
        connection.abort()
        await connection._register(1, frozenset(EventType))
        assert not connection.peer.state.events

    on_a_server(act)


@pytest.mark.parametrize(
    ("opcode", "body", "text"),
    [
        (0x44, b"", "Unknown opcode"),
        (Opcode.RESULT, b"", "Wrong protocol direction"),
        (Opcode.QUERY, b"", "Not enough bytes"),
        (Opcode.QUERY, b"\0\0\0\1x\0\x55\0", "Unknown code 85 for a consistency level"),
        (Opcode.QUERY, b"\0\0\0\1\xff\0\1\0", "Cannot decode string as UTF8"),
        (Opcode.REGISTER, b"\0\1\0\1X", "Invalid value 'X' for Event.Type"),
        (Opcode.BATCH, b"\7", "Invalid BATCH message type 7"),
    ],
)
def test_a_broken_body_is_refused_and_the_connection_stays(opcode: int, body: bytes, text: str) -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(V4)
        client.write(envelope(V4, 9, opcode, body))
        reply = await client.receive()
        refusal = refusal_in(reply)
        assert (reply.stream, refusal.code) == (9, 0x000A)
        assert refusal.text.startswith(text)
        assert await client.is_alive()

    on_a_server(act)


def test_a_damaged_segment_closes_the_connection_and_does_nothing() -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(V5)
        await client.query(TABLE)
        insert = request_bytes(QueryRequest("INSERT INTO ks.t (k) VALUES ('x')", ONE), V5, 1)
        good = encode_segment(insert, is_self_contained=True, compressed=False)
        dice = random.Random(7)
        for _ in range(20):
            damaged = bytearray(good)
            bit = dice.randrange(len(damaged) * 8)
            damaged[bit // 8] ^= 1 << bit % 8
            broken = await server.client(V5)
            broken.write(bytes(damaged))
            assert await broken.closed()
            assert broken.replies == []
        assert (await client.rows("SELECT * FROM ks.t")).rows == []

    on_a_server(act)


def test_half_a_frame_waits_alone() -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(V4)
        raw = request_bytes(OptionsRequest(), V4, 5)
        client.write(raw[:5])
        other = await server.client(V4)
        assert await other.is_alive()
        client.write(raw[5:])
        assert (await client.receive(5)).opcode is Opcode.SUPPORTED
        client.write(raw[:4])
        await client.close()

    on_a_server(act)


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(V4)
        await client.query("CREATE TABLE ks.big (k int PRIMARY KEY, v blob)")
        await client.query("INSERT INTO ks.big (k, v) VALUES (1, ?)", bytes(1 << 18))
        select = QueryRequest("SELECT v FROM ks.big WHERE k = 1", ONE)
        for _ in range(400):
            client.send(select)
        [connection] = [one for one in server.listener.connections if one.peer.remote == client.address]
        assert isinstance(connection, NativeConnection)
        calls = connection.peer.state.calls
        await until(lambda: connection._is_reading_paused)
        assert len(calls) <= MAX_CALLS
        await until(lambda: not calls)
        assert connection.transport is not None
        assert connection.transport.get_write_buffer_size() < (MAX_CALLS + 8) << 18
        assert await (await server.client()).is_alive()
        for _ in range(400):
            await client.receive()
        assert await client.is_alive()

    on_a_server(act)


def test_connections_count_against_the_limit_of_the_process() -> None:
    async def scenario() -> None:
        async with native_server(max_connections=2) as server:
            first, second = await server.client(), await server.client()
            third = await server.client(ready=False)
            assert await third.closed()
            assert server.listener.statistics().refused == 1
            await first.close()
            await until(lambda: len(server.listener.connections) == 1)
            assert await (await server.client()).is_alive()
            assert await second.is_alive()

    run(scenario())


def test_compressed_segments_are_agreed_on_by_name() -> None:
    async def act(server: NativeServer) -> None:
        client = await server.client(V5, ready=False)
        client.write(envelope(V5, 1, Opcode.STARTUP, string_map({"CQL_VERSION": "3.4.7", "COMPRESSION": LZ4})))
        assert (await client.receive()).opcode is Opcode.READY
        client.write(encode_segment(request_bytes(OptionsRequest(), V5, 2), is_self_contained=True, compressed=True))
        data = await client._reader.read(1000)
        assert b"CQL_VERSION" in data
        offered = Reader((await (await server.client(V4)).ask(OptionsRequest())).body)
        assert offered.short() == 3

    on_a_server(act)


def test_a_client_logs_in_as_a_user_of_the_cluster() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            client = await server.client()
            await client.query(TABLE)
            roles = [{"role": "read", "db": "ks"}]
            await server.node.run({"createUser": "ann", "pwd": "secret", "roles": roles}, "admin")
            await server.node.run({"createUser": "root", "pwd": "r", "roles": ["root"]}, "admin")
            server.node.services.access.enabled = True
            await log_in(server.node, "root", "r")
            for user, password in (("ann", "wrong"), ("nobody", "secret"), ("", "x"), ("ann", "")):
                stranger = await server.client()
                with pytest.raises(Refusal, match="QUERY, expecting SASL_RESPONSE"):
                    await stranger.query("SELECT * FROM ks.t")
                with pytest.raises(Refusal) as refusal:
                    await stranger.log_in(user, password)
                assert refusal.value.code == 0x0100
                if user and password:
                    expected = f"Provided username {user} and/or password are incorrect"
                    assert refusal.value.text == expected
                assert await stranger.closed()
            ann = await server.client(V4)
            assert (await ann.log_in("ann", "secret")).opcode is Opcode.AUTH_SUCCESS
            select = await ann.prepare("SELECT * FROM ks.t")
            await ann.execute(select)
            refused = await ann.refused("INSERT INTO ks.t (k) VALUES ('x')")
            assert refused.code == 0x2100
            assert refused.text == "User ann has no MODIFY permission on <table ks.t> or any of its parents"
            created = await ann.refused("CREATE TABLE ks.u (k text PRIMARY KEY)")
            assert created.text == "User ann has no CREATE permission on <keyspace ks> or any of its parents"
            dropped = await ann.refused("DROP KEYSPACE ks")
            assert dropped.text == "User ann has no DROP permission on <all keyspaces> or any of its parents"
            assert len((await ann.rows("SELECT * FROM system.local")).rows) == 1
            # What has been prepared is held against the newest permissions.
            await server.node.run({"revokeRolesFromUser": "ann", "roles": roles}, "admin")
            with pytest.raises(Refusal) as revoked:
                await ann.execute(select)
            assert revoked.value.code == 0x2100

    run(scenario())


def test_a_login_ends_with_its_connection_and_delayed_ones_keep_nobody_out() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            await server.node.run({"createUser": "root", "pwd": "r", "roles": ["root"]}, "admin")
            access = server.node.services.access
            access.enabled = True
            delayed: list[asyncio.Future[None]] = []

            async def pause(_seconds: float) -> None:
                delayed.append(asyncio.get_running_loop().create_future())
                await delayed[-1]

            access.pause = pause
            for _ in range(1000):
                access.attempts.failed("127.0.0.1", UserName("nobody", "admin"), server.node.services.clock())
            strangers = [await server.client() for _ in range(5)]
            for client in strangers:
                client.send(AuthResponse(b"\0nobody\0x"))
            root = await server.client()
            assert (await root.log_in("root", "r")).opcode is Opcode.AUTH_SUCCESS
            await until(lambda: len(delayed) == len(strangers))
            for client in strangers:
                await client.close()
            await until(lambda: all(future.cancelled() for future in delayed))

    run(scenario())


def test_a_statement_that_others_have_prepared_is_unknown_to_those_who_may_not() -> None:
    async def scenario() -> None:
        async with native_server() as server:
            await (await server.client()).query(TABLE)
            await server.node.run({"createUser": "ann", "pwd": "a", "roles": []}, "admin")
            await server.node.run({"createUser": "root", "pwd": "r", "roles": ["root"]}, "admin")
            server.node.services.access.enabled = True
            root, ann = await server.client(), await server.client()
            await root.log_in("root", "r")
            await ann.log_in("ann", "a")
            prepared = await root.prepare("SELECT * FROM ks.t")
            with pytest.raises(Refusal) as refused:
                await ann.execute(prepared)
            assert refused.value.code == 0x2500

    run(scenario())


def test_the_port_is_encrypted_where_the_main_one_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority(tmp_path / "certificates")
        options = TlsOptions(
            mode=TlsMode.REQUIRE, certificate_key_file=authority.issue("server"), ca_file=authority.ca_file
        )
        async with native_server(certificates=TlsCertificates(options)) as server:
            context = ssl.create_default_context(cafile=str(authority.ca_file))
            context.check_hostname = False
            context.load_cert_chain(authority.issue("client"))
            for version in VERSIONS:
                client = await server.client(version, encrypted=context)
                await client.query("CREATE TABLE IF NOT EXISTS ks.t (k text PRIMARY KEY, v blob)")
                await client.query("INSERT INTO ks.t (k, v) VALUES ('x', ?)", bytes(1 << 20))
                assert (await client.rows("SELECT v FROM ks.t")).rows == [(bytes(1 << 20),)]
            plain = await server.client(ready=False)
            plain.send(OptionsRequest())
            assert await plain.closed()
            assert plain.replies == []

    run(scenario())


def test_random_frames_leave_the_server_as_it_was() -> None:
    """Each ends in an answer, or with its connection."""

    async def act(server: NativeServer) -> None:
        dice = random.Random(11)
        client = await server.client(V4)
        await client.query(TABLE)
        statements = ("SELECT * FROM ks.t", "INSERT INTO ks.t (k, v) VALUES (?, ?)", "USE ks", "DESCRIBE SCHEMA", "x")
        for _ in range(1500):
            text = dice.choice(statements)
            given = QueryParameters(level=Level.ONE, values=(b"k", None), page_size=dice.choice((0, 1, 100)))
            raw = bytearray(request_bytes(QueryRequest(text, given), V4, 1))
            for _ in range(dice.randint(1, 3)):
                raw[dice.randrange(4, len(raw)) if dice.random() < 0.9 else dice.randrange(9)] = dice.randrange(256)
            # The length stays, else the server would wait for more.
            raw[5:9] = (len(raw) - 9).to_bytes(4, "big")
            client.write(bytes(raw))
            try:
                await client.receive()
            except EOFError:
                client = await server.client(V4)

    on_a_server(act)
