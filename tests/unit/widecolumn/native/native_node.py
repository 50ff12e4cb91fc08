"""A data node in this process with a port for the native protocol, and a client of bare frames."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from docstore.net.listener import Listener
from docstore.net.tls.certificates import TlsCertificates
from docstore.options import NetworkOptions, Options
from docstore.widecolumn.cql.plan.bindings import Bound
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.protocol.notation import Reader
from docstore.widecolumn.protocol.opcodes import V4, V5, Opcode
from docstore.widecolumn.protocol.requests import (
    AuthResponse,
    ExecuteRequest,
    OptionsRequest,
    PrepareRequest,
    QueryParameters,
    QueryRequest,
    Request,
    StartupRequest,
)
from docstore.widecolumn.protocol.segments import encode_segments
from mongod.widecolumn.native import native_port_of
from tests.unit.widecolumn.node.wide_columns import WideNode
from tests.unit.widecolumn.protocol.client_frames import (
    ReadRows,
    Reply,
    payloads_in,
    read_rows,
    replies_in,
    request_bytes,
)

SECONDS = 10
REPLICATION = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


class NativeServer:
    """`node` in its `listener`; the native protocol is on `port`."""

    def __init__(self, node: WideNode, listener: Listener, port: int) -> None:
        self.node = node
        self.listener = listener
        self.port = port

    async def client(
        self, version: int = V5, *, ready: bool = True, encrypted: ssl.SSLContext | None = None
    ) -> NativeSocket:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=encrypted)
        client = NativeSocket(reader, writer, version)
        if ready:
            await client.start()
        return client


@asynccontextmanager
async def native_server(
    max_connections: int = 100, certificates: TlsCertificates | None = None
) -> AsyncIterator[NativeServer]:
    """With the keyspace `ks`."""
    node = WideNode()
    await node.begin()
    listener = Listener(
        node.dispatcher,
        addresses=("127.0.0.1",),
        port=0,
        max_connections=max_connections,
        certificates=certificates,
    )
    await listener.start()
    options = Options(network=NetworkOptions(addresses=("127.0.0.1",)), cql_port=0)
    async with native_port_of(options, listener) as port:
        assert isinstance(port, int)
        try:
            yield NativeServer(node, listener, port)
        finally:
            await listener.stop(1.0)


class Refusal(Exception):
    """An ERROR: its code, its text, and the bytes behind it."""

    def __init__(self, code: int, text: str, details: bytes) -> None:
        super().__init__(f"{code:#06x} {text}")
        self.code = code
        self.text = text
        self.details = details


class NativeSocket:
    """One connection. `replies` have come and not been asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.version = version
        self.replies: list[Reply] = []
        self._reader = reader
        self._writer = writer
        self._bytes = b""
        self._payloads = b""
        self._is_segmented = False
        self._last_stream = 0

    @property
    def address(self) -> str:
        """The client's end, as the server names it."""
        host, port = self._writer.get_extra_info("sockname")
        return f"{host}:{port}"

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def send(self, request: Request, flags: int = 0) -> int:
        """Send a request; return its stream."""
        self._last_stream += 1
        raw = request_bytes(request, self.version, self._last_stream, flags)
        if self._is_segmented:
            raw = b"".join(encode_segments([raw], compressed=False))
        self._writer.write(raw)
        return self._last_stream

    async def receive(self, stream: int | None = None) -> Reply:
        """Return the next response, or that of a stream."""
        while True:
            for at, reply in enumerate(self.replies):
                if stream in (None, reply.stream):
                    return self.replies.pop(at)
            await self._read()

    async def _read(self) -> None:
        data = await asyncio.wait_for(self._reader.read(1 << 20), SECONDS)
        if not data:
            raise EOFError
        self._bytes += data
        if self._is_segmented:
            payloads, end = payloads_in(self._bytes)
            self._bytes = self._bytes[end:]
            self._payloads += payloads
            found = list(replies_in(self._payloads))
            self._payloads = self._payloads[found[-1][1] :] if found else self._payloads
        else:
            found = list(replies_in(self._bytes))
            self._bytes = self._bytes[found[-1][1] :] if found else self._bytes
        self.replies += [reply for reply, _ in found]

    async def closed(self) -> bool:
        """True when the server has closed the connection."""
        try:
            while True:
                await self._read()
        except (EOFError, ConnectionError):
            return True

    async def ask(self, request: Request, flags: int = 0) -> Reply:
        """Return the response. Refusal."""
        reply = await self.receive(self.send(request, flags))
        if reply.opcode is Opcode.ERROR:
            raise refusal_in(reply)
        return reply

    async def start(self, options: dict[str, str] | None = None) -> Reply:
        reply = await self.ask(StartupRequest({"CQL_VERSION": "3.4.7"} if options is None else options))
        self._is_segmented = self.version == V5
        return reply

    async def log_in(self, user: str, password: str) -> Reply:
        return await self.ask(AuthResponse(b"\0" + user.encode() + b"\0" + password.encode()))

    async def query(self, text: str, *values: Bound, **parameters: Any) -> Reply:
        given = QueryParameters(level=parameters.pop("level", Level.ONE), values=values, **parameters)
        return await self.ask(QueryRequest(text, given))

    async def rows(self, text: str, *values: Bound, **parameters: Any) -> ReadRows:
        return read_rows((await self.query(text, *values, **parameters)).body)

    async def prepare(self, text: str) -> tuple[bytes, bytes | None, Reader]:
        """(id, id of the result's metadata, what follows)."""
        reader = Reader((await self.ask(PrepareRequest(text, None))).body)
        assert reader.integer() == 4
        return reader.short_bytes(), reader.short_bytes() if self.version == V5 else None, reader

    async def execute(self, statement: tuple[bytes, bytes | None, Reader], *values: Bound, **parameters: Any) -> Reply:
        given = QueryParameters(level=parameters.pop("level", Level.ONE), values=values, **parameters)
        return await self.ask(ExecuteRequest(statement[0], statement[1], given))

    async def refused(self, text: str, *values: Bound, **parameters: Any) -> Refusal:
        try:
            await self.query(text, *values, **parameters)
        except Refusal as refusal:
            return refusal
        raise AssertionError(f"not refused: {text}")

    async def is_alive(self) -> bool:
        return (await self.ask(OptionsRequest())).opcode is Opcode.SUPPORTED

    async def close(self) -> None:
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


def refusal_in(reply: Reply) -> Refusal:
    reader = Reader(reply.body)
    code, text = reader.integer(), reader.string()
    return Refusal(code, text, reply.body[6 + len(text.encode()) :])


VERSIONS = (V4, V5)
