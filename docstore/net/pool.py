"""The internal client: commands to other processes over pooled connections.

- A connection carries one request at a time, and there are as many connections as concurrent requests, up to a bound
  per address. A slow command never delays another, unlike with pipelining.
- The most recently used connection is used first, so that extra connections of a burst become idle and are closed.
- If the process has keys, every connection is authenticated before its first command.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import lru_cache, partial
from itertools import count
from time import monotonic
from typing import Any, Protocol

import bson

from docstore.bson import append_fields, document_to_python, get_field
from docstore.bson.walk import ARRAY, BOOL, DOUBLE, INT32, INT64, STRING
from docstore.commands.client_connection import PROCESS_DRIVER
from docstore.commands.values import integer_of, text_of, truth_of
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.errors import NetworkError
from docstore.net.link import Answered, Link, connect
from docstore.net.login import CertificateLogin, Login, NotTaken
from docstore.net.reply_stream import ReplyStream
from docstore.net.tls.certificates import TlsCertificates
from docstore.security.cluster_keys import ClusterKeys
from docstore.wire.errors import ProtocolError
from docstore.wire.message import EXHAUST_ALLOWED, Message, encode_message

LOG = component("NETWORK")
_IDLE_SECONDS = 60.0
_REAP_SECONDS = 20.0
_DATABASES = 256
_SUCCESS = (DOUBLE, b"\0\0\0\0\0\0\xf0\x3f")
"""The `ok` of nearly all replies."""
_ERROR_FIELDS = frozenset(("ok", "errmsg", "code", "codeName", "errorLabels", "operationTime", "$clusterTime"))


class ClusterTimes(Protocol):
    """The process's cluster time, gossiped with internal commands."""

    def field(self) -> bytes:
        """Return `$clusterTime` encoded for a request; empty if there is none yet."""

    def hear(self, reply: bytes) -> None:
        """Observe the cluster time of a reply."""


class Pool:
    """Connections to any number of addresses ("host:port"). Needs a running loop from its first command on."""

    def __init__(
        self,
        *,
        application: str = "docstore",
        connect_timeout: float = 5.0,
        max_per_address: int = 500,
        clock: Callable[[], float] = monotonic,
        keys: ClusterKeys | None = None,
        certificates: TlsCertificates | None = None,
    ) -> None:
        """`application`: the client name reported to peers. Times are in seconds. `keys`: authenticate the process to
        peers.

        `certificates`: determine if its connections use TLS.
        """
        self.times: ClusterTimes | None = None
        self._application = application
        self._connect_timeout = connect_timeout
        self._max_per_address = max_per_address
        self._clock = clock
        self._keys = keys
        self._certificates = certificates
        # The key that each address accepted last; None if it accepted none.
        self._taken_keys: dict[str, int | None] = {}
        self._idle: dict[str, dict[Link, None]] = {}
        self._open: dict[str, int] = {}
        self._made: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._links: set[Link] = set()
        self._request_ids = count(1)
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False

    async def command(
        self,
        address: str,
        db: str,
        command: Mapping[str, Any] | bytes,
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        timeout: float = 30.0,
        check: bool = True,
    ) -> bytes:
        """Run a command and return the raw reply. `$db` is added.

        Errors: NetworkError; CommandError if the reply has `ok: 0`, unless `check` is False.
        """
        request_id = next(self._request_ids) & 0x7FFFFFFF
        frame = _framed(self.times, db, command, request_id, sequences)
        deadline = self._clock() + timeout
        link = await self._acquire(address, deadline)
        try:
            reply = await link.request(frame, request_id, max(deadline - self._clock(), 0.001))
        finally:
            self._release(link)
        if self.times is not None:
            self.times.hear(reply.body)
        if check:
            raise_for_error(reply.body)
        return reply.body

    async def stream(
        self, address: str, db: str, command: Mapping[str, Any] | bytes, *, timeout: float = 30.0
    ) -> AsyncGenerator[bytes, None]:
        """Yield the raw replies to an exhaust command, up to the last, which may be the first. `timeout`: for each.

        Errors: NetworkError; CommandError for a reply with `ok: 0`. Leaving the stream early closes its connection,
        which frees the server's resources for it.
        """
        request_id = next(self._request_ids) & 0x7FFFFFFF
        frame = _framed(self.times, db, command, request_id, flags=EXHAUST_ALLOWED)
        link = await self._acquire(address, self._clock() + timeout)
        replies, has_more = ReplyStream(link), True
        try:
            replies.begin(frame, request_id)
            while has_more:
                link.idle_since = self._clock()
                reply = await replies.next(timeout)
                if self.times is not None:
                    self.times.hear(reply.body)
                raise_for_error(reply.body)
                has_more = reply.more_to_come
                yield reply.body
        finally:
            if link.waiting:
                link.close()
            self._release(link)

    def send(
        self,
        address: str,
        body: bytes,
        answered: Answered,
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        timeout: float,
        before: object = None,
    ) -> Link | None:
        """Send a complete request, including `$db`, over an idle connection; return the connection.

        None if there is no idle connection, or if the request exceeds one message. Then nothing was sent, and
        `answered` is not called. Otherwise `answered` is called once, with the unchecked reply or the NetworkError.
        `before`: the preferred connection, returned for an earlier request of the same client. `timeout`: seconds; a
        request may time out as late as the next periodic check of connections.
        """
        idle = self._idle.get(address)
        if not idle or self._closed:
            return None
        request_id = next(self._request_ids) & 0x7FFFFFFF
        try:
            frame = encode_message(body, request_id=request_id, sequences=sequences.items() if sequences else ())
        except ProtocolError:
            return None
        link = self._take_idle(idle, before)
        if link is not None:
            link.due = self._clock() + timeout
            link.send(frame, request_id, partial(self._answered, link, answered))
        return link

    def _answered(self, link: Link, answered: Answered, reply: Message | NetworkError) -> None:
        link.due = 0.0
        self._release(link)
        answered(reply)

    def _take_idle(self, idle: dict[Link, None], before: object) -> Link | None:
        """Return an idle connection: `before`, else the most recently used; None if none is usable."""
        if isinstance(before, Link) and before in idle:
            link = before
            del idle[link]
            if link.usable:
                return link
            self._discard(link)
        while idle:
            link, _ = idle.popitem()
            if link.usable:
                return link
            self._discard(link)
        return None

    async def close(self) -> None:
        """Close every connection; commands in progress fail with NetworkError."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        for link in list(self._links):
            link.close()
        for queue in self._queues.values():
            for waiter in queue:
                waiter.set_exception(NetworkError("", "the client is closed", sent=False))
            queue.clear()
        # One turn of the loop lets the transports close their sockets.
        await asyncio.sleep(0)

    def give_up_silent(self, address: str, since: float) -> None:
        """Fail connections that have received nothing since `since`, from a server that is silent.

        A host that lost power or was cut off closes no connection.
        """
        for link in [
            candidate for candidate in self._links if candidate.address == address and candidate.idle_since < since
        ]:
            link.give_up("the server has fallen silent")

    def give_up_earlier(self, address: str, process_id: object) -> None:
        """Fail connections to an earlier process at this address; `process_id` is the current one."""
        for link in [candidate for candidate in self._links if candidate.address == address]:
            if link.process_id is not None and link.process_id != process_id:
                link.give_up("the server has been started anew")

    def statistics(self) -> dict[str, dict[str, int]]:
        """Return the open, idle and total connections by address."""
        return {
            address: {"open": opened, "idle": len(self._idle.get(address, ())), "created": self._made[address]}
            for address, opened in self._open.items()
            if opened
        }

    async def _acquire(self, address: str, deadline: float) -> Link:
        while True:
            if self._closed:
                raise NetworkError(address, "the client is closed", sent=False)
            idle = self._idle.get(address)
            link = self._take_idle(idle, None) if idle else None
            if link is not None:
                return link
            if self._open.get(address, 0) < self._max_per_address:
                return await self._connect(address, deadline)
            await self._wait_for_release(address, deadline)

    async def _connect(self, address: str, deadline: float) -> Link:
        # Count before the first await, so that a burst cannot exceed the bound.
        self._open[address] = self._open.get(address, 0) + 1
        self._made[address] = self._made.get(address, 0) + 1
        link = None
        try:
            seconds = min(self._connect_timeout, max(deadline - self._clock(), 0.001))
            context = None if self._certificates is None else self._certificates.connecting
            link = await connect(address, seconds, context)
            self._links.add(link)
            await self._greet(link, deadline)
        except BaseException:
            if link is not None:
                self._discard(link)
            else:
                self._uncount(address)
            raise
        if self._reaper is None:
            self._reaper = asyncio.get_running_loop().call_later(_REAP_SECONDS, self._reap)
        return link

    async def _greet(self, link: Link, deadline: float) -> None:
        hello: dict[str, Any] = {
            "hello": 1,
            "client": {
                "application": {"name": self._application},
                "driver": {"name": PROCESS_DRIVER, "version": "1"},
                "os": {"type": "Linux"},
            },
            "$db": "admin",
        }
        login: Login | CertificateLogin | None = None
        if self._keys is not None:
            by_certificate = self._keys.mode.sends_certificates
            key_index = self._taken_keys.get(link.address) or 0
            login = CertificateLogin() if by_certificate else Login(self._keys, key_index)
            hello["speculativeAuthenticate"] = login.with_hello()
        reply = await self._say(link, deadline, hello)
        raise_for_error(reply)
        if login is not None:
            await self._log_in(link, deadline, login, document_to_python(reply))
        version = get_field(reply, "topologyVersion")
        if version is not None:
            link.process_id = document_to_python(reply)["topologyVersion"].get("processId")
        link.idle_since = self._clock()

    async def _log_in(
        self, link: Link, deadline: float, login: Login | CertificateLogin, hello: dict[str, Any]
    ) -> None:
        assert self._keys is not None, "there is no login without keys"
        address = link.address
        try:
            self._taken_keys[address] = await login.finish(hello, partial(self._say, link, deadline))
        except NotTaken as error:
            if self._taken_keys.get(address, 0) is not None:
                LOG.warning(
                    "Another process of the cluster does not take this one for one of it", remote=address,
                    reason=str(error), goesOn=self._keys.lenient,
                )  # fmt: skip
                self._taken_keys[address] = None
            if not self._keys.lenient:
                raise NetworkError(
                    address, f"authentication failed: {error}", sent=False, code=Code.AuthenticationFailed
                ) from None

    async def _say(self, link: Link, deadline: float, command: dict[str, Any]) -> bytes:
        """Send a handshake command, before the first request; return the raw reply."""
        request_id = next(self._request_ids) & 0x7FFFFFFF
        frame = encode_message(bson.encode(command), request_id=request_id)
        try:
            return (await link.request(frame, request_id, max(deadline - self._clock(), 0.001))).body
        except NetworkError as error:
            raise NetworkError(
                link.address, error.reason, sent=False, code=error.code, refused=error.refused
            ) from error

    async def _wait_for_release(self, address: str, deadline: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._queues.setdefault(address, deque())
        queue.append(waiter)
        try:
            async with asyncio.timeout(max(deadline - self._clock(), 0.001)):
                await waiter
        except (TimeoutError, asyncio.CancelledError) as reason:
            if waiter in queue:
                queue.remove(waiter)
            else:
                # It was this waiter's turn: wake the next one.
                self._wake(address)
            if isinstance(reason, asyncio.CancelledError):
                raise
            raise NetworkError(
                address, "no connection became free in time", sent=False, code=Code.NetworkTimeout
            ) from None

    def _release(self, link: Link) -> None:
        if link.usable and not self._closed:
            link.idle_since = self._clock()
            self._idle.setdefault(link.address, {})[link] = None
            self._wake(link.address)
        else:
            self._discard(link)

    def _discard(self, link: Link) -> None:
        if link in self._links:
            self._links.discard(link)
            link.close()
            self._uncount(link.address)

    def _uncount(self, address: str) -> None:
        self._open[address] -= 1
        self._wake(address)

    def _wake(self, address: str) -> None:
        queue = self._queues.get(address)
        while queue:
            waiter = queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _reap(self) -> None:
        now = self._clock()
        before = now - _IDLE_SECONDS
        for address, idle in self._idle.items():
            self._idle[address] = {link: None for link in idle if link.usable and link.idle_since >= before}
            for link in idle.keys() - self._idle[address].keys():
                self._discard(link)
        for link in [candidate for candidate in self._links if candidate.waiting and 0 < candidate.due <= now]:
            link.give_up("no reply in time")
        self._reaper = asyncio.get_running_loop().call_later(_REAP_SECONDS, self._reap)


def _framed(
    times: ClusterTimes | None,
    db: str,
    command: Mapping[str, Any] | bytes,
    request_id: int,
    sequences: Mapping[str, list[bytes]] | None = None,
    flags: int = 0,
) -> bytes:
    """Return the OP_MSG of a command, with the gossip of `times`. Errors: BSONObjectTooLarge if no message can hold
    it.
    """
    body = command if isinstance(command, bytes) else bson.encode(command)
    body = append_fields(body, db_field(db) if times is None else db_field(db) + times.field())
    named = sequences.items() if sequences else ()
    try:
        return encode_message(body, request_id=request_id, flags=flags, sequences=named)
    except ProtocolError as error:
        raise CommandError(Code.BSONObjectTooLarge, str(error)) from None


@lru_cache(maxsize=_DATABASES)
def db_field(db: str) -> bytes:
    """Return the encoded field `$db`."""
    name = db.encode() + b"\0"
    return b"\x02$db\0" + len(name).to_bytes(4, "little") + name


def raise_for_error(reply: bytes) -> None:
    """Raise the CommandError of an `ok: 0` reply, with its labels, and its other fields as `extra`."""
    ok = get_field(reply, "ok")
    if ok == _SUCCESS or (ok is not None and ok[0] in (DOUBLE, INT32, INT64, BOOL) and truth_of(*ok)):
        return
    code = get_field(reply, "code")
    message = get_field(reply, "errmsg")
    labels = get_field(reply, "errorLabels")
    extra = {name: value for name, value in document_to_python(reply).items() if name not in _ERROR_FIELDS}
    raise CommandError(
        integer_of(*code) if code is not None and code[0] in (INT32, INT64) else Code.UnknownError,
        text_of(message[1]) if message is not None and message[0] == STRING else "the reply gives no reason",
        extra=extra,
        labels=tuple(document_to_python(labels[1]).values()) if labels is not None and labels[0] == ARRAY else (),
    )


def connections_document(
    links: Mapping[str, Mapping[str, int]], sets: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the reply of connPoolStats, from a pool's statistics and the monitored replica sets, by name."""
    hosts = {
        address: {"inUse": counts["open"] - counts["idle"], "available": counts["idle"], "created": counts["created"]}
        for address, counts in links.items()
    }
    return {
        "numClientConnections": sum(counts["open"] for counts in links.values()),
        "numAScopedConnections": 0,
        "totalInUse": sum(counts["inUse"] for counts in hosts.values()),
        "totalAvailable": sum(counts["available"] for counts in hosts.values()),
        "totalCreated": sum(counts["created"] for counts in hosts.values()),
        "totalRefreshing": 0,
        "totalRefreshed": 0,
        "pools": {},
        "hosts": hosts,
        "numReplicaSetMonitorsCreated": len(sets or {}),
        "replicaSets": dict(sets or {}),
    }
