"""The console's HTTP handlers. `guard` runs before them; `server` limits connections.

GET  /                        the page GET  /assets/HASH/NAME        a file of it GET  /api/session
whether login is required, and who is logged in POST /api/login               {user, password, db}: the cookie of a
login, and {key}, which goes into the header `MARK`;
                              {mechanism, user}: the same by the connection's certificate
POST /api/logout              its end POST /api/command             {db, command}: the command's reply, in canonical
extended JSON POST /api/bson                the same in BSON: a command with its `$db`, as the shell in the page sends
it GET  /metrics                 for Prometheus; by user and password (Basic; ?authSource=DB, else admin) or
certificate
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler

from docstore.commands.access.control import X509
from docstore.commands.client_connection import ClientConnection
from docstore.commands.dispatch import Dispatcher
from docstore.console.assets import SHELL_WORKER, Assets
from docstore.console.commands import Call, NoCommand
from docstore.console.extended_json import NotJson, read_object, written
from docstore.console.guard import HEADERS, MARK, SHELL_POLICY, Guard, Refused
from docstore.console.logins import Ends, LoginRefused, Logins, Password, Proof, ShownCertificate, TooBusy
from docstore.console.metrics.gather import NotAllowed
from docstore.console.metrics.page import metrics_page
from docstore.console.open_streams import OpenStreams
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.tls.certificates import TlsCertificates
from docstore.security.certificates import BadCertificate, Subject

LOG = component("NETWORK")
COMMAND_SECONDS = 300.0
"""The time limit of a command."""
SEND_SECONDS = 30.0
"""The time limit for a client to read an answer."""
COMMANDS_AT_ONCE = 32
LARGEST_REPLY = 4 << 20
"""The maximal bytes of a reply in JSON."""
LARGEST_RAW_REPLY = 17 << 20
LARGEST_LOGIN = 4096
_ASIDE_BYTES = 16 << 10
"""Longer texts are read and written in a thread."""
CONVERTED_AT_ONCE = 2
"""The number of long texts converted at once; each takes many times its size meanwhile."""
_METRICS_SECONDS = 20.0


@dataclass(slots=True)
class Console:
    """The state that all handlers share.

    `cookie`: its name, which includes the port because browsers share cookies among ports. `certificates`: with them
    connections are encrypted. `calls`: the running commands.
    """

    dispatcher: Dispatcher
    logins: Logins
    guard: Guard
    assets: Assets
    process: str
    cookie: str
    certificates: TlsCertificates | None
    streams: OpenStreams
    calls: set[Call] = field(default_factory=set)
    converting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONVERTED_AT_ONCE))

    @property
    def needs_login(self) -> bool:
        return self.dispatcher.services.access.enabled


class _Handler(RequestHandler):
    """The base of handlers. Every answer has the headers of `guard`; errors are answered as `{error}`."""

    def initialize(self, console: Console) -> None:
        self.console = console
        self._call: Call | None = None
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection), "the console speaks HTTP/1"
        self._stream = connection.stream

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        self.console.streams.answering(self._stream)
        try:
            self.console.guard.check_host(self.request.headers.get("Host"))
            if self.request.method == "POST":
                self.console.guard.check_post(self.request.headers)
        except Refused as error:
            LOG.info("Request to the console refused", reason=str(error), remote=self.remote)
            self.refuse(error.status, str(error))

    def on_finish(self) -> None:
        self.console.streams.answered(self._stream)

    def log_exception(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Log unexpected errors. A broken invariant ends the process, as it does everywhere."""
        if isinstance(error, HTTPError):
            return
        if isinstance(error, AssertionError):
            context = {"message": "a request to the console failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return
        LOG.error("Request to the console failed", error=repr(error), exc_info=error)

    def compute_etag(self) -> None:
        """Return None: answers change with every request, so they have no ETag."""

    def write_error(self, status_code: int, **_kwargs: Any) -> None:
        self.refuse(status_code, self._reason)

    def refuse(self, status: int, reason: str) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"error": reason}))

    def on_connection_close(self) -> None:
        if self._call is not None:
            self._call.give_up(CommandError(Code.ClientDisconnect, "the client is gone"))

    @property
    def remote(self) -> str:
        return self.ends.remote

    @property
    def ends(self) -> Ends:
        return Ends(*(_address(self.request.connection, end) for end in ("getpeername", "getsockname")))

    @property
    def subject(self) -> Subject | None:
        """Return the subject of the certificate of the request's connection; None without one."""
        certificates, connection = self.console.certificates, _socket(self.request.connection)
        if certificates is None or connection is None:
            return None
        try:
            return certificates.subject_shown(connection)
        except BadCertificate as error:
            LOG.warning("A certificate cannot be read", reason=str(error), remote=self.remote)
            return None

    @property
    def connection(self) -> ClientConnection | None:
        """Return the connection that runs the commands; None if login is required."""
        if self.console.needs_login:
            token, key = self.get_cookie(self.console.cookie), self.request.headers.get(MARK)
            return (
                None if token is None or key is None else self.console.logins.find(token, key, self.subject, self.ends)
            )
        return self.anonymous

    @property
    def anonymous(self) -> ClientConnection:
        return self.console.logins.anonymous(self.ends)

    async def send(self, kind: str, body: str | bytes) -> None:
        """Send the answer; abort for a client that does not read it."""
        stream = getattr(self.request.connection, "stream", None)
        self.set_header("Content-Type", kind)
        sending = self.finish(body)
        try:
            await asyncio.wait_for(asyncio.shield(sending), SEND_SECONDS)
        except TimeoutError:
            LOG.info("A client of the console does not read", remote=self.remote)
            if stream is not None:
                stream.close()
        except StreamClosedError:
            pass

    async def take_object(self, largest: int) -> dict[str, Any]:
        """Return the body as an object. Errors: Refused."""
        body = self.request.body
        if len(body) > largest:
            raise Refused(413, "the body is too long")
        try:
            document: dict[str, Any] = await self.aside(len(body), lambda: read_object(body))
        except NotJson as error:
            raise Refused(400, f"the body is not extended JSON: {error}") from None
        return document

    async def aside(self, size: int, work: Callable[[], Any]) -> Any:
        """Run a conversion of `size` bytes, on another thread if it is long."""
        if size <= _ASIDE_BYTES:
            return work()
        async with self.console.converting:
            return await asyncio.to_thread(work)

    async def call(self, connection: ClientConnection, seconds: float, work: Callable[[Call], Awaitable[Any]]) -> Any:
        """Run commands for the client of this request. Errors: Refused, NoCommand."""
        calls = self.console.calls
        if len(calls) >= COMMANDS_AT_ONCE:
            raise Refused(503, "too many commands are being run here")
        call = self._call = Call(self.console.dispatcher, connection, seconds)
        calls.add(call)
        try:
            return await work(call)
        finally:
            self._call = None
            calls.discard(call)


class PageHandler(_Handler):
    async def get(self) -> None:
        await self.send("text/html; charset=utf-8", self.console.assets.index)


class AssetHandler(_Handler):
    async def get(self, version: str, name: str) -> None:
        asset = self.console.assets.find(version, name)
        if asset is None:
            self.refuse(404, "there is no such file")
            return
        if name == SHELL_WORKER:
            self.set_header("Content-Security-Policy", SHELL_POLICY)
        self.set_header("Cache-Control", "public, max-age=31536000, immutable")
        await self.send(*asset)


class MissingHandler(_Handler):
    def prepare(self) -> None:
        super().prepare()
        if not self._finished:
            self.refuse(404, "there is nothing here")


class SessionHandler(_Handler):
    async def get(self) -> None:
        console, connection = self.console, self.connection
        identity = None if connection is None else connection.identity
        session: dict[str, Any] = {"process": console.process, "loginRequired": console.needs_login, "user": None}
        session |= {"shell": console.assets.has_shell, "certificate": self._usable_certificate()}
        if identity is not None:
            session["user"] = identity.user.name.document()
        await self.send("application/json", json.dumps(session))

    def _usable_certificate(self) -> str | None:
        """Return the name in the certificate with which the client may try to log in."""
        console = self.console
        may = console.needs_login and X509 in console.dispatcher.services.access.mechanisms
        subject = self.subject if may else None
        return None if subject is None else subject.text


class LoginHandler(_Handler):
    async def post(self) -> None:
        try:
            body = await self.take_object(LARGEST_LOGIN)
            proof = self._proof(body)
            if not self.console.needs_login:
                raise Refused(400, "nobody has to log in here: access control is off")
            token, key, name = await self.console.logins.log_in(proof, self.ends)
        except LoginRefused:
            self.refuse(401, "Authentication failed.")
        except TooBusy:
            self.refuse(503, "too many are logging in")
        except Refused as error:
            self.refuse(error.status, str(error))
        else:
            secure = self.console.certificates is not None
            self.set_cookie(self.console.cookie, token, path="/", httponly=True, samesite="Strict", secure=secure)
            await self.send("application/json", json.dumps({"user": name.document(), "key": key}))

    def _proof(self, body: dict[str, Any]) -> Proof:
        """Errors: Refused."""
        if "mechanism" not in body:
            return Password(*_texts({"db": "admin", **body}, "user", "db", "password"))
        if body["mechanism"] != X509 or not body.keys() <= {"mechanism", "user"}:
            raise Refused(400, f"without a password the body is {{mechanism: {X509}}}, with or without a user")
        return ShownCertificate(self.subject, *_texts(body, *body.keys() & {"user"}))


class LogoutHandler(_Handler):
    async def post(self) -> None:
        token = self.get_cookie(self.console.cookie)
        if token is not None:
            self.console.logins.log_out(token, self.request.headers.get(MARK, ""), self.subject, self.ends)
        self.clear_cookie(self.console.cookie, path="/", httponly=True, samesite="Strict")
        await self.send("application/json", "{}")


class _CommandHandler(_Handler):
    """A request that runs a command for the logged-in user."""

    async def post(self) -> None:
        connection = self.connection
        if connection is None:
            self.refuse(401, "log in first")
            return
        try:
            kind, body = await self.answer(connection)
        except Refused as error:
            self.refuse(error.status, str(error))
        except NoCommand as error:
            self.refuse(400, f"this is no command: {error}")
        else:
            await self.send(kind, body)

    async def answer(self, connection: ClientConnection) -> tuple[str, str | bytes]:
        """Return the content type and the text of the reply. Errors: Refused, NoCommand."""
        raise NotImplementedError

    async def reply_to(
        self, connection: ClientConnection, largest: int, work: Callable[[Call], Awaitable[bytes]]
    ) -> bytes:
        """Errors: Refused, NoCommand."""
        reply: bytes = await self.call(connection, COMMAND_SECONDS, work)
        if len(reply) > largest:
            raise Refused(413, f"the reply has {len(reply)} bytes: ask for less at once")
        return reply


class CommandHandler(_CommandHandler):
    async def answer(self, connection: ClientConnection) -> tuple[str, str | bytes]:
        body = await self.take_object(len(self.request.body))
        db, command = body.get("db"), body.get("command")
        if not isinstance(db, str) or not isinstance(command, dict) or not command:
            raise Refused(400, "the body is {db: a name, command: a document}")
        reply = await self.reply_to(connection, LARGEST_REPLY, lambda call: call.run(db, command))
        return "application/json", await self.aside(len(reply), lambda: written(reply))


class BsonHandler(_CommandHandler):
    async def answer(self, connection: ClientConnection) -> tuple[str, str | bytes]:
        body = self.request.body
        return "application/bson", await self.reply_to(connection, LARGEST_RAW_REPLY, lambda call: call.send(body))


class MetricsHandler(_Handler):
    async def get(self) -> None:
        try:
            connection = await self._authenticated()
            accept = self.request.headers.get("Accept", "")
            kind, body = await self.call(connection, _METRICS_SECONDS, lambda call: metrics_page(call, accept))
        except LoginRefused:
            self.set_header("WWW-Authenticate", 'Basic realm="docstore", charset="UTF-8"')
            self.refuse(401, "a user with the role clusterMonitor has to log in")
        except NotAllowed as error:
            self.refuse(403, str(error))
        except TooBusy:
            self.refuse(503, "too many are logging in")
        except Refused as error:
            self.refuse(error.status, str(error))
        else:
            await self.send(kind, body)

    async def _authenticated(self) -> ClientConnection:
        """Errors: LoginRefused, TooBusy."""
        if not self.console.needs_login:
            return self.anonymous
        header, subject = self.request.headers.get("Authorization"), self.subject
        proof: Proof
        if header is None and subject is not None:
            proof = ShownCertificate(subject)
        else:
            user, password = _basic(header or "")
            proof = Password(user, self.get_query_argument("authSource", "admin"), password)
        return await self.console.logins.with_request(proof, self.ends)


def _texts(body: dict[str, Any], *names: str) -> list[str]:
    """Errors: Refused."""
    values = [body.get(name) for name in names]
    texts = [value for value in values if isinstance(value, str)]
    if texts != values:
        raise Refused(400, f"the body has {', '.join(names)}, all of them texts")
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        raise Refused(400, "the texts are not Unicode") from None
    return texts


def _basic(header: str) -> tuple[str, str]:
    """User and password of an Authorization header. Errors: LoginRefused."""
    scheme, _, credentials = header.partition(" ")
    try:
        text = base64.b64decode(credentials.strip(), validate=True).decode()
    except ValueError:
        raise LoginRefused from None
    user, colon, password = text.partition(":")
    if scheme.lower() != "basic" or not colon:
        raise LoginRefused
    return user, password


def _socket(connection: Any) -> Any:
    """The encrypted socket of a request's connection; None when it has been closed meanwhile."""
    return getattr(getattr(connection, "stream", None), "socket", None)


def _address(connection: Any, end: str) -> str:
    """An end of the request's connection as "host:port"."""
    try:
        name = getattr(_socket(connection), end)()
    except (AttributeError, OSError):
        # It has been closed meanwhile.
        return "unknown"
    return f"{name[0]}:{name[1]}"
