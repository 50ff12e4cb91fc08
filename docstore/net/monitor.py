"""Monitoring of one server by hello: an immediate reply, then one after every change.

It uses the awaitable hello: the server holds the request until its topology version changes, or for `maxAwaitTimeMS`. A
server without topology versions is polled every `_POLL_SECONDS`.

Requests to a server that has been silent for `_SILENT_SECONDS`, or was restarted, are failed: connections to a host
that lost power or was cut off never report it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.net.errors import NetworkError
from docstore.net.pool import Pool
from docstore.net.topology import HEARTBEAT_SECONDS

_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 1.0
_SILENT_SECONDS = 10.0
_RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5)


class Monitor:
    """Calls `heard(address, hello, round_trip)` with each reply, and `heard(address, None, 0)` after a failure.

    `round_trip`: seconds; 0 for a held reply.
    """

    def __init__(
        self,
        address: str,
        pool: Pool,
        heard: Callable[[str, Mapping[str, Any] | None, float], None],
        clock: Callable[[], float],
    ) -> None:
        self.address = address
        self._pool = pool
        self._heard = heard
        self._clock = clock
        self._again = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"monitor {address}")

    def check_now(self) -> None:
        """Send hello at once instead of waiting for a change."""
        self._again.set()

    async def stop(self) -> None:
        """Stop; no calls follow."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        version: Mapping[str, Any] | None = None
        process_id: object = None
        failures = 0
        answered = self._clock()
        while True:
            self._again.clear()
            try:
                hello, round_trip = await self._ask(version)
            except (NetworkError, CommandError) as error:
                self._heard(self.address, None, 0.0)
                silent = self._clock() - _SILENT_SECONDS
                if answered < silent and isinstance(error, NetworkError):
                    self._pool.give_up_silent(self.address, silent)
                version = None
                await self._pause(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1
                continue
            failures = 0
            if hello is None:
                version = None
                continue
            answered = self._clock()
            version = hello.get("topologyVersion")
            if version is not None and version["processId"] != process_id:
                process_id = version["processId"]
                self._pool.give_up_earlier(self.address, process_id)
            self._heard(self.address, hello, round_trip)
            if version is None:
                await self._pause(_POLL_SECONDS)

    async def _ask(self, version: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, float]:
        """Return (decoded hello, round trip); (None, 0) if `check_now` cancelled a held request."""
        command: dict[str, Any] = {"hello": 1}
        if version is None:
            started = self._clock()
            raw = await self._pool.command(self.address, "admin", command, timeout=_ANSWER_SECONDS)
            return document_to_python(raw), self._clock() - started
        command |= {"topologyVersion": version, "maxAwaitTimeMS": round(HEARTBEAT_SECONDS * 1000)}
        request = asyncio.ensure_future(
            self._pool.command(self.address, "admin", command, timeout=HEARTBEAT_SECONDS + _ANSWER_SECONDS)
        )
        wakeup = asyncio.ensure_future(self._again.wait())
        try:
            await asyncio.wait((request, wakeup), return_when=asyncio.FIRST_COMPLETED)
            return (document_to_python(request.result()), 0.0) if request.done() else (None, 0.0)
        finally:
            for future in (request, wakeup):
                future.cancel()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._again.wait(), seconds)
