"""One connection to one process, without anything that a driver would do behind our back.

A request is sent once. Whoever asks learns whether it may have arrived: `NotSent` means that it certainly has not.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from typing import Any

import bson

_HEADER = struct.Struct("<iiii")
_OP_MSG = 2013
_REQUESTS = itertools.count(1)


class NotSent(Exception):
    """No connection: the request has not left."""


class Lost(Exception):
    """The request left and no answer came."""


class Link:
    """A connection that is opened when it is needed and again after it broke. One request at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def command(
        self, document: dict[str, Any], *, timeout: float, connect_timeout: float = 1.0
    ) -> dict[str, Any]:
        """The reply, whatever it says. NotSent, Lost."""
        reader, writer = await self._connected(connect_timeout)
        try:
            async with asyncio.timeout(timeout):
                body = bson.encode(document)
                writer.write(_HEADER.pack(21 + len(body), next(_REQUESTS), 0, _OP_MSG) + b"\0\0\0\0\0" + body)
                await writer.drain()
                length = _HEADER.unpack(await reader.readexactly(16))[0]
                return dict(bson.decode((await reader.readexactly(length - 16))[5:]))
        except (OSError, TimeoutError, EOFError) as error:
            self.close()
            raise Lost(f"{self.address}: {error!r}") from error
        except asyncio.CancelledError:
            self.close()
            raise

    async def _connected(self, timeout: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            host, _, port = self.address.rpartition(":")
            try:
                async with asyncio.timeout(timeout):
                    self._streams = await asyncio.open_connection(host, int(port), limit=1 << 26)
            except (OSError, TimeoutError) as error:
                raise NotSent(f"{self.address}: {error!r}") from error
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def ask(address: str, document: dict[str, Any], *, timeout: float = 5.0) -> dict[str, Any]:
    """One request on a connection of its own. NotSent, Lost; Refused where the answer is an error."""
    link = Link(address)
    try:
        reply = await link.command({**document, "$db": document.get("$db", "admin")}, timeout=timeout)
    finally:
        link.close()
    if not reply.get("ok"):
        raise Refused(reply)
    return reply


class Refused(Exception):
    """An answer with ok: 0."""

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__(f"{reply.get('codeName')} ({reply.get('code')}): {reply.get('errmsg')}")
        self.code = reply.get("code")
