"""The port of the console: its connections and their limits.

Invariants:

- at most `MOST_CONNECTIONS` are open (`OpenStreams`), a silent or slow one is closed in time, and a request's head
  and body are short;
- if the main port is encrypted, so is this one, with the newest certificate.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from socket import socket
from ssl import SSLContext
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.web import Application

from docstore.console.assets import Assets
from docstore.console.guard import Guard
from docstore.console.handlers import (
    AssetHandler,
    BsonHandler,
    CommandHandler,
    Console,
    LoginHandler,
    LogoutHandler,
    MetricsHandler,
    MissingHandler,
    PageHandler,
    SessionHandler,
)
from docstore.console.limits import MAX_HEAD_BYTES
from docstore.console.logins import Logins
from docstore.console.open_streams import OpenStreams
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.listener import Listener
from docstore.net.tls.certificates import TlsCertificates

LOG = component("NETWORK")
# Errors of peers are not logged; errors of the server are logged by the handlers.
logging.getLogger("tornado.general").setLevel(logging.ERROR)
MOST_CONNECTIONS = 64
LARGEST_BODY = 512 << 10
QUIET_SECONDS = 2.0
"""The time for which an idle connection is not closed to make room."""
IDLE_SECONDS = 60.0
"""The time limit of an idle connection, and of a request's head."""
BODY_SECONDS = 15.0


class _Server(HTTPServer):
    """Bounds the connections, and looks for the certificate of each anew."""

    def initialize(
        self,
        *args: Any,
        streams: OpenStreams | None = None,
        certificates: TlsCertificates | None = None,
        **options: Any,
    ) -> None:
        assert streams is not None, "the console bounds its connections"
        self._certificates = certificates
        self._streams = streams
        super().initialize(*args, **options)

    @property
    def ssl_options(self) -> dict[str, Any] | SSLContext | None:
        return None if self._certificates is None else self._certificates.of_console

    @ssl_options.setter
    def ssl_options(self, _options: Any) -> None:
        """Certificates are looked for when they are needed."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if not self._streams.admit(stream):
            LOG.warning("Connection to the console refused because too many are open", max=len(self._streams))
            stream.close()
            return
        super().handle_stream(stream, address)


class ConsoleServer:
    """Serves the dispatcher of a listener. `names`: as in `Guard`."""

    def __init__(
        self,
        listener: Listener,
        *,
        process: str,
        names: Iterable[str] = (),
        most_connections: int = MOST_CONNECTIONS,
        quiet_seconds: float = QUIET_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._listener = listener
        self._process = process
        self._guard = Guard(names)
        self._streams = OpenStreams(most_connections, quiet_seconds, listener.dispatcher.services.clock)
        self._bounds = {
            "idle_connection_timeout": idle_seconds,
            "body_timeout": body_seconds,
            "max_header_size": MAX_HEAD_BYTES,
            "max_body_size": LARGEST_BODY,
            "max_buffer_size": LARGEST_BODY + MAX_HEAD_BYTES,
        }

    def start(self, sockets: list[socket]) -> int:
        """Answer on these sockets, which are bound; returns the port."""
        listener = self._listener
        port: int = sockets[0].getsockname()[1]
        self.logins = Logins(listener.dispatcher, listener.next_connection_id)
        self._console = Console(
            dispatcher=listener.dispatcher,
            logins=self.logins,
            guard=self._guard,
            assets=Assets(),
            process=self._process,
            cookie=f"docstore-console-{port}",
            certificates=listener.certificates,
            streams=self._streams,
        )
        shared = {"console": self._console}
        application = Application(
            [
                (r"/", PageHandler, shared),
                (r"/assets/([0-9a-f]{16})/([a-z_]+\.[a-z]+)", AssetHandler, shared),
                (r"/api/session", SessionHandler, shared),
                (r"/api/login", LoginHandler, shared),
                (r"/api/logout", LogoutHandler, shared),
                (r"/api/command", CommandHandler, shared),
                (r"/api/bson", BsonHandler, shared),
                (r"/metrics", MetricsHandler, shared),
            ],
            default_handler_class=MissingHandler,
            # Commands are logged where they are carried out.
            log_function=lambda _handler: None,
            default_handler_args=shared,
        )
        self._server = _Server(
            application, certificates=listener.certificates, streams=self._console.streams, **self._bounds
        )
        self._server.add_sockets(sockets)
        return port

    async def stop(self) -> None:
        """Accept nothing more, end commands, close all connections."""
        self._server.stop()
        error = CommandError(Code.InterruptedAtShutdown, "interrupted at shutdown")
        for call in list(self._console.calls):
            call.give_up(error)
        await self._server.close_all_connections()
        self.logins.end_all()
