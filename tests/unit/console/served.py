"""A console on a free port over a node in memory, and a client that sends whatever it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

from docstore.commands.declaration import Command
from docstore.console.guard import MARK
from docstore.console.logins import Logins
from docstore.console.server import ConsoleServer
from docstore.net.listener import Listener
from docstore.net.sockets import bind
from docstore.net.tls.certificates import TlsCertificates
from tests.harness.serving import LOOPBACK
from tests.unit.node.local import LocalNode
from tests.unit.node.logging_in import user_document

USERS = {
    "reader": [{"role": "read", "db": "shop"}],
    "monitor": [{"role": "clusterMonitor", "db": "admin"}],
    "root": [{"role": "root", "db": "admin"}],
}
PASSWORD = "open sesame"
JSON = {"Content-Type": "application/json", MARK: "1"}


class Answer:
    """What came back. `headers`: by lower-case name; of several cookies the last."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.body = body

    @property
    def told(self) -> Any:
        return json.loads(self.body)


class Console:
    """A console, and the node behind it. Each `ask` has a connection of its own."""

    def __init__(self, node: LocalNode, server: ConsoleServer, port: int, context: ssl.SSLContext | None) -> None:
        self.node = node
        self.server = server
        self.port = port
        self.context = context
        self.keys: dict[str, str] = {}
        """Of logins, by their cookie; they are sent with it."""

    @property
    def logins(self) -> Logins:
        return self.server.logins

    @property
    def host(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(LOOPBACK, self.port, ssl=self.context, limit=32 << 20)

    async def ask(
        self, path: str, body: Any = None, *, method: str = "", headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        """`body` makes it a POST, in JSON unless it is bytes. A header that is None is left out."""
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        told: dict[str, str | None] = {"Host": self.host, "Connection": "close"}
        if method != "GET":
            told |= {**JSON, "Content-Length": str(len(raw))}
        told |= headers or {}
        if (key := self.keys.get(told.get("Cookie") or "")) is not None:
            told[MARK] = key
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in told.items() if value is not None),
        ]
        reader, writer = await self.connect()
        try:
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
            return await receive(reader, bodiless=method == "HEAD")
        finally:
            writer.close()

    async def command(self, command: Mapping[str, Any], db: str = "shop", **headers: str) -> Any:
        """The reply to a command, decoded as plain JSON."""
        answer = await self.ask("/api/command", {"db": db, "command": command}, headers=headers)
        assert answer.status == 200, answer.body
        return answer.told

    async def log_in(self, user: str, password: str = PASSWORD, db: str = "admin") -> str:
        """The Cookie header of a login."""
        return await self.log_in_by({"user": user, "password": password, "db": db})

    async def log_in_by(self, proof: Mapping[str, str]) -> str:
        answer = await self.ask("/api/login", proof)
        assert answer.status == 200, answer.body
        cookie = answer.headers["set-cookie"].partition(";")[0]
        self.keys[cookie] = answer.told["key"]
        return cookie


async def receive(reader: asyncio.StreamReader, *, bodiless: bool = False) -> Answer:
    """One answer. Errors: IncompleteReadError when the connection was closed before its end."""
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    answer = Answer(head, b"")
    if not bodiless:
        answer.body = await reader.readexactly(int(answer.headers.get("content-length", "0")))
    return answer


@contextlib.asynccontextmanager
async def console(
    *extra: Command,
    auth: bool = False,
    certificates: TlsCertificates | None = None,
    context: ssl.SSLContext | None = None,
    replicated: bool = False,
    **bounds: Any,
) -> AsyncIterator[Console]:
    """With `auth` there are `USERS`, all with the same password."""
    node = LocalNode(extra=extra, replicated=replicated, security=certificates)
    if auth:
        users = [user_document(name, PASSWORD, roles=roles) for name, roles in USERS.items()]
        await node.run({"insert": "system.users", "documents": users}, "admin")
        node.services.access.enabled = True
    listener = Listener(node.dispatcher, addresses=[LOOPBACK], port=0, certificates=certificates)
    node.node.network = listener.statistics
    server = ConsoleServer(listener, process="mongod", **bounds)
    port = server.start(bind([LOOPBACK], 0))
    try:
        yield Console(node, server, port, context)
    finally:
        await server.stop()
