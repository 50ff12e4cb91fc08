"""Events for clients: the schema and the nodes are read every second, and differences are sent as events.

One mechanism for all changes, whoever makes them: this process, another router, or a command. A change made through
this process is looked for at once. Nothing is read while no client wants to hear of changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from docstore.errors import CommandError
from docstore.log import component
from docstore.widecolumn.cql.run.results import SchemaChanged
from docstore.widecolumn.cql.system.changes import ClusterState, schema_changes, state_of
from docstore.widecolumn.cql.system.contents import Schema
from docstore.widecolumn.cql.system.topology import Node
from docstore.widecolumn.protocol.requests import EventType
from docstore.widecolumn.protocol.responses import node_event_body, schema_event_body

LOG = component("NETWORK")
INTERVAL_SECONDS = 1.0
_READING_SHARE = 10
"""The interval is at least as many times as long as the last reading took."""

ReadCluster = Callable[[], Awaitable[tuple[Schema, Sequence[Node]]]]
"""Reads the schema and the other nodes."""


@dataclass(frozen=True, slots=True)
class Event:
    """`body`: as the protocol has it; `change`: of the schema, None for one of the nodes."""

    type: EventType
    body: bytes
    change: SchemaChanged | None = None


class ChangeWatcher:
    """`tell` sends events to the clients that may hear of them; `is_wanted`: whether a client wants to hear of any."""

    def __init__(
        self, read: ReadCluster, tell: Callable[[list[Event]], Awaitable[None]], is_wanted: Callable[[], bool]
    ) -> None:
        self._read = read
        self._tell = tell
        self._is_wanted = is_wanted
        self._poked = asyncio.Event()
        self._reading_seconds = 0.0
        self._started: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Return when all changes from now on are going to be told."""
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            self._started = loop.create_future()
            self._task = loop.create_task(self._run(self._started))
        assert self._started is not None, "the task has one"
        await asyncio.shield(self._started)

    def poke(self) -> None:
        """Look for changes at once."""
        self._poked.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, started: asyncio.Future[None]) -> None:
        try:
            state = await self._state(None)
        finally:
            if not started.done():
                started.set_result(None)
        while self._is_wanted():
            with suppress(TimeoutError):
                async with asyncio.timeout(max(INTERVAL_SECONDS, _READING_SHARE * self._reading_seconds)):
                    await self._poked.wait()
            self._poked.clear()
            current = await self._state(state)
            if state is not None and current is not None and current != state:
                await self._tell(_events_between(state, current))
            state = current

    async def _state(self, last: ClusterState | None) -> ClusterState | None:
        """Read the state; the last one if it cannot be read now."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            schema, nodes = await self._read()
            self._reading_seconds = loop.time() - began
            return state_of(schema, nodes)
        except CommandError as error:
            LOG.debug("The schema cannot be read for events", reason=error.message)
        except Exception as error:
            LOG.warning("The schema cannot be read for events", error=repr(error))
        return last


def _events_between(before: ClusterState, after: ClusterState) -> list[Event]:
    """Return the events of all changes that lead from one state to the other."""
    return [
        *(
            Event(EventType.SCHEMA_CHANGE, schema_event_body(change), change)
            for change in schema_changes(before, after)
        ),
        *_node_events(after.nodes - before.nodes, "NEW_NODE", "UP"),
        *_node_events(before.nodes - after.nodes, "REMOVED_NODE", "DOWN"),
    ]


def _node_events(addresses: Iterable[tuple[str, int]], topology: str, status: str) -> Iterator[Event]:
    for address, port in addresses:
        for event, change in ((EventType.TOPOLOGY_CHANGE, topology), (EventType.STATUS_CHANGE, status)):
            yield Event(event, node_event_body(event.value, change, address, port))
