"""Change streams over the cluster: the streams of all shards, merged by their tokens into one.

Invariants:

- an event is returned when every shard has promised, by the token of its last batch, that it has no earlier one to
  come;
- before the events up to a promised time are returned, all shards added by that time are known. A new one is read
  from the position reached: it could have earlier changes only if it had been a shard earlier;
- an idle shard is told the time of the others, so that its log, and with it its promise, advances.

The stages after `$changeStream` run here; documents are looked up through the router's own targeting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import bson
from bson.int64 import Int64

from docstore.aggregation.change_stream.errors import fatal, labelled
from docstore.aggregation.change_stream.kept_tokens import EventStages, Made
from docstore.aggregation.change_stream.options import DEFAULT, LOOKUP, OFF, ChangeStreamOptions
from docstore.aggregation.change_stream.token import high_water_mark, mark_key
from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.stage import Environment
from docstore.aggregation.stages.change_stream import change_stream_of, split_off
from docstore.bson import array_from, document_from, document_to_python, documents_array, elements, get_field
from docstore.bson.walk import ARRAY, BOOL, INT64, NULL, OBJECT, STRING
from docstore.commands.context import Context
from docstore.commands.cursors import ClientCursor
from docstore.commands.fail_points.failures import check_get_more
from docstore.commands.limits import check_internal_size
from docstore.errors import CommandError
from docstore.js import script_thread
from docstore.net import NetworkError
from docstore.optime import unpack_timestamp
from docstore.query.value.values import string_value
from mongos.limits import MAX_EVENT_BATCH_BYTES
from mongos.merge.pipelines import Request, open_pipeline
from mongos.router import Router, router_of
from mongos.routing.requests import cursor_of
from mongos.routing.shards import Shard, unreachable

AWAIT_SECONDS = 1.0
"""The wait of a getMore for events, if the client gives none."""
_IDLE_MS, _BEHIND_MS = 500, 50
"""The wait of a shard's getMore: while there is no event, and while events wait for its promise."""
_SHARD_BYTES = 4 * 1024 * 1024
_FIRST_BATCH = 101


class _Part:
    """The stream of one shard: its buffered events, and the key up to which they are complete."""

    def __init__(self, shard: Shard, address: str, body: bytes) -> None:
        self.shard = shard
        self.address = address
        self.events: deque[tuple[bytes, bytes]] = deque()
        self.promised = b""
        self.task: asyncio.Task[bytes] | None = None
        self.id = 0
        self.namespace = ""
        self.take(body)

    def take(self, body: bytes) -> None:
        """Take a batch that has arrived."""
        reply = cursor_of(body)
        self.id, self.namespace = reply.id, reply.namespace
        self.events += [(_key_of(event, "_id"), event) for event in reply.documents]
        cursor = get_field(body, "cursor")
        assert cursor is not None, "a cursor command's reply has a cursor"
        self.promised = _key_of(cursor[1], "postBatchResumeToken")

    def ask(self, wait_ms: int) -> None:
        """Request the next batch."""
        if self.task is None and self.id:
            database, _, name = self.namespace.partition(".")
            command: dict[str, Any] = {"getMore": Int64(self.id), "collection": name}
            command |= {"maxTimeMS": wait_ms, "batchBytes": _SHARD_BYTES}
            self.task = asyncio.ensure_future(self.shard.at(self.address, database, command))

    def collect(self) -> None:
        """Take the batch if it has arrived. Errors: those of the shard, HostUnreachable."""
        if self.task is None or not self.task.done():
            return
        task, self.task = self.task, None
        try:
            self.take(task.result())
        except NetworkError as error:
            self.id = 0
            raise unreachable(self.shard.name, self.address, error) from error
        except CommandError:
            self.id = 0
            raise

    async def kill(self) -> None:
        """End the shard's cursor; if the shard is unreachable it times out by itself."""
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
        if self.id:
            database, _, name = self.namespace.partition(".")
            with contextlib.suppress(NetworkError, CommandError):
                await self.shard.end_cursor(self.address, database, name, self.id)


class RoutedStream:
    """One client's stream; the source of its cursor. `request` opens it on a shard."""

    def __init__(
        self, router: Router, request: Request, options: ChangeStreamOptions, stages: EventStages, start: int
    ) -> None:
        token = options.token
        self._router = router
        self._request = request
        self._options = options
        self._stages = stages
        self._parts: dict[str, _Part] = {}
        self._ready: deque[Made] = deque()
        self._after = None if token is None else token.event_key
        self._given = 0 if token is None else token.fragment
        self._awaited = token if token is not None and not token.is_mark else None
        self._reached = mark_key(start) if token is None else token.event_key
        self._start = start
        self._token = high_water_mark(start) if token is None else token.raw
        self.ended = False
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def resume_token(self) -> bytes:
        return self._token

    @property
    def is_over(self) -> bool:
        """True if the stream has ended by itself and all its events were returned."""
        return self.ended and not self._ready

    async def open(self) -> None:
        """Open the streams of all shards. Errors: those of the shards."""
        await self._open_new(await self._router.shards.all(), self._start)

    async def next_batch(self, context: Context, most: int, until: float) -> list[bytes]:
        """Return at most `most` events, once there are any, and no later than `until`.

        Errors: those of the shards and the stages; BSONObjectTooLarge.
        """
        events: list[bytes] = []
        size = 0
        while True:
            while self._ready and len(events) < most and size < MAX_EVENT_BATCH_BYTES:
                document, self._token, _ = self._ready.popleft()
                check_internal_size(document)
                events.append(document)
                size += len(document)
            remaining = until - self._router.clock()
            if events or most == 0 or self.ended or (remaining <= 0 and not self._events_wait):
                return events
            await self._produce(context, max(remaining, 0.0))
            if not self._ready and self._router.clock() >= until:
                return events

    @property
    def _events_wait(self) -> bool:
        return any(part.events for part in self._parts.values())

    async def _produce(self, context: Context, seconds: float) -> None:
        """Learn of new shards, and prepare the events that all shards have promised."""
        parts = list(self._parts.values())
        waits = self._events_wait
        if waits:
            await self._move_on(parts)
        for part in parts:
            if not part.events:
                part.ask(min(_BEHIND_MS if waits else _IDLE_MS, int(seconds * 1000) + 1))
        asked = [part.task for part in parts if part.task is not None]
        if asked:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for part in parts:
            part.collect()
        promised = _time_of(min(part.promised for part in self._parts.values()))
        await self._open_new(await self._router.shards.as_of(promised), None)
        made = await self._merged(context)
        self._ready += self._stages.transformed(made)
        if not self._ready:
            self._pass_time()

    async def _move_on(self, parts: Sequence[_Part]) -> None:
        """Advance the logs of shards that are behind the next event to its time."""
        key = min(part.events[0][0] for part in parts if part.events)
        time = unpack_timestamp(_time_of(key) + 1)
        command = {
            "find": "startup_log", "limit": 1, "readConcern": {"level": "local", "afterClusterTime": time},
            "$clusterTime": {"clusterTime": time, "signature": {"hash": bytes(20), "keyId": Int64(0)}},
        }  # fmt: skip
        lagging_parts = [part for part in parts if part.promised < key and part.task is None]
        await asyncio.gather(*(part.shard.command("local", command, repeatable=True) for part in lagging_parts))

    async def _open_new(self, shards: Sequence[Shard], start: int | None) -> None:
        """Open the streams of shards that have none; `start` None: from the place that was reached."""
        new = [shard for shard in shards if shard.name not in self._parts]
        if not new:
            return
        at = _time_of(self._reached) if start is None else start
        position = {"startAtOperationTime": unpack_timestamp(at)}
        for part in await asyncio.gather(*(self._opened(shard, position) for shard in new)):
            self._parts[part.shard.name] = part

    async def _opened(self, shard: Shard, place: dict[str, Any]) -> _Part:
        # Without the client's session: a shard's stream belongs to this one.
        pipeline, cursor = array_from([(OBJECT, self._stage(place))]), bson.encode({"batchSize": 0})
        named = elements(self._request.base)[0]
        large = ("largeEvents", BOOL, b"\1")
        body = document_from([named, ("pipeline", ARRAY, pipeline), ("cursor", OBJECT, cursor), large])
        answer = await shard.command(self._request.namespace.partition(".")[0], body, repeatable=True)
        return _Part(shard, answer.address, answer.body)

    def _stage(self, place: dict[str, Any]) -> bytes:
        options, stage = self._options, dict(place)
        if options.full_document not in (DEFAULT, LOOKUP):
            stage["fullDocument"] = options.full_document
        if options.before_change != OFF:
            stage["fullDocumentBeforeChange"] = options.before_change
        if options.expanded:
            stage["showExpandedEvents"] = True
        if options.whole_cluster:
            stage["allChangesForCluster"] = True
        return bson.encode({"$changeStream": stage})

    async def _merged(self, context: Context) -> list[Made]:
        """The events, in order, that come before everything that is still to come."""
        parts = list(self._parts.values())
        made: list[Made] = []
        while not self.ended and len(made) < _FIRST_BATCH:
            part = min((part for part in parts if part.events), key=lambda part: part.events[0][0], default=None)
            if part is None:
                break
            key, event = part.events[0]
            if any(other.promised < key for other in parts if not other.events):
                break
            part.events.popleft()
            self._reached = key
            kind = get_field(event, "operationType")
            if self._after is not None and key <= self._after and not self._has_rest(key):
                if key == self._after:
                    self._awaited = None
                if kind is not None and kind[1][4:-1] == b"invalidate":
                    # The shard's stream has ended with the event, this one continues.
                    ended = document_to_python(event)["_id"]
                    self._parts[part.shard.name] = await self._opened(part.shard, {"startAfter": ended})
                    parts = list(self._parts.values())
                continue
            if self._awaited is not None:
                raise fatal("cannot resume stream; the resume token was not found.")
            if kind is not None and kind[1][4:-1] == b"invalidate":
                self.ended = True
            elif self._options.full_document == LOOKUP and kind is not None and kind[1][4:-1] == b"update":
                event = await self._looked_up(context, event)
            token = get_field(event, "_id")
            assert token is not None, "an event has a token"
            made.append((event, token[1], _time_of(key)))
        return made

    def _has_rest(self, key: bytes) -> bool:
        """True if the key is that of the event whose fragment the resume token names."""
        if key != self._after or not self._given:
            return False
        self._stages.given, self._given = self._given, 0
        self._after = self._awaited = None
        return True

    async def _looked_up(self, context: Context, event: bytes) -> bytes:
        """The event of an update with the document as it stands now, or null; in the place that it has on a shard."""
        fields = elements(event)
        by_name = {name: (code, data) for name, code, data in fields}
        names = {name: data[4:-1].decode() for name, _, data in elements(by_name["ns"][1])}
        namespace = f"{names['db']}.{names['coll']}"
        time = unpack_timestamp(int.from_bytes(by_name["clusterTime"][1], "little"))
        concern = {"level": "majority", "afterClusterTime": time}
        base = bson.encode({"aggregate": names["coll"], "pipeline": [], "cursor": {}, "readConcern": concern})
        match = document_from([("$match", OBJECT, by_name["documentKey"][1])])
        # The getMore's maxTimeMS says how long to wait for events; a lookup that it ended would end the stream.
        inner_context = context.derived(namespace=namespace, db=names["db"], deadline=None, max_time_ms=0)
        cursor = await open_pipeline(inner_context, Request(base, namespace, parse_pipeline([match])))
        try:
            documents, _ = await cursor.next_batch(1, MAX_EVENT_BATCH_BYTES)
        finally:
            cursor.close()
        index = next(at for at, (name, _, _) in enumerate(fields) if name == "ns")
        full = ("fullDocument", OBJECT, documents[0]) if documents else ("fullDocument", NULL, b"")
        return document_from([*fields[:index], full, *fields[index:]])

    def _pass_time(self) -> None:
        """Advance to the time that all shards have promised, if no event waits."""
        promised = min(
            (part.events[0][0] if part.events else part.promised for part in self._parts.values()), default=b""
        )
        # A promise ends in an event of its time or in the time itself; the time before it is over in any case.
        passed = _time_of(promised) - (0 if promised == mark_key(_time_of(promised)) else 1) if promised else 0
        if passed > _time_of(self._reached):
            self._reached = mark_key(passed)
            self._token = high_water_mark(passed)

    def close(self) -> None:
        """End the shards' streams in the background."""
        for part in self._parts.values():
            task = asyncio.ensure_future(part.kill())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._parts.clear()


def _key_of(raw: bytes, field: str) -> bytes:
    token = get_field(raw, field)
    data = None if token is None else get_field(token[1], "_data")
    assert data is not None, f"a token is missing: {field}"
    assert data[0] == STRING, "a token is text"
    return bytes.fromhex(data[1][4:-1].decode())


def _time_of(key: bytes) -> int:
    return int.from_bytes(key[1:9], "big")


async def open_change_stream(context: Context, request: Request, batch_size: int | None) -> bytes:
    """The reply of an aggregate that opens a change stream. Errors: those of the shards, with labels."""
    router = router_of(context)
    options, pipeline = change_stream_of(request.pipeline)
    start = await _start(router, options)
    pipeline, splits = split_off(pipeline)
    stages = EventStages(pipeline, Environment(clock=router.clock), splits=splits)
    stream = RoutedStream(router, request, options, stages, start)
    try:
        await stream.open()
        most = _FIRST_BATCH if batch_size is None else batch_size
        documents = await stream.next_batch(context, most, router.clock())
    except BaseException as error:
        stream.close()
        raise _told(error) from None
    if stream.is_over:
        stream.close()
        return _reply(documents, 0, request.namespace, "firstBatch", stream)
    lsid = context.session.lsid if context.session else None
    cursor = context.services.cursors.register(
        stream, request.namespace, lsid=lsid, origin=context.redacted_request, owner=context.owner, needs=context.needs
    )
    cursor.returned, cursor.batches = len(documents), 1
    cursor.apart = script_thread.current() is not None
    return _reply(documents, cursor.id, request.namespace, "firstBatch", stream)


async def next_stream_reply(context: Context, cursor: ClientCursor, batch_size: int | None) -> bytes:
    """The reply of a getMore on a stream's checked-out cursor. Errors: those of the shards, with labels."""
    registry = context.services.cursors
    stream: RoutedStream = cursor.source
    has_time_limit = get_field(context.raw, "maxTimeMS") is not None
    until = router_of(context).clock() + (context.max_time_ms / 1000 if has_time_limit else AWAIT_SECONDS)
    try:
        points = context.services.fail_points
        if points is not None:
            check_get_more(points, context)
        documents = await stream.next_batch(context, batch_size or 2**31 - 1, until)
    except BaseException as error:
        registry.close(cursor)
        raise _told(error) from None
    cursor.returned += len(documents)
    cursor.batches += 1
    alive = False
    if stream.is_over:
        registry.close(cursor)
    else:
        alive = registry.checkin(cursor)
    return _reply(documents, cursor.id if alive else 0, cursor.namespace, "nextBatch", stream)


def _told(error: BaseException) -> BaseException:
    return labelled(error) if isinstance(error, CommandError) else error


async def _start(router: Router, options: ChangeStreamOptions) -> int:
    """Return the packed timestamp at which the stream starts: after everything acknowledged anywhere."""
    if options.first_timestamp is not None:
        return options.first_timestamp
    answers = await asyncio.gather(
        *(shard.command("admin", {"ping": 1}, repeatable=True) for shard in await router.shards.all())
    )
    times = [get_field(answer.body, "operationTime") for answer in answers]
    return max((int.from_bytes(time[1], "little") for time in times if time is not None), default=0) + 1


def _reply(documents: list[bytes], cursor_id: int, namespace: str, field: str, stream: RoutedStream) -> bytes:
    """`{cursor: {<field>, postBatchResumeToken, invalidated?, id, ns}}`."""
    fields: list[tuple[str, int, bytes]] = [
        (field, ARRAY, documents_array(documents)),
        ("postBatchResumeToken", OBJECT, stream.resume_token),
    ]
    if stream.is_over:
        fields.append(("invalidated", BOOL, b"\1"))
    fields += [("id", INT64, cursor_id.to_bytes(8, "little")), ("ns", *string_value(namespace))]
    return document_from([("cursor", OBJECT, document_from(fields))])
