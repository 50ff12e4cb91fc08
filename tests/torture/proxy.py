"""A network in user space, for where no namespaces are allowed: everything that goes to a host goes through a proxy.

A host has two addresses of the loopback network: at one the proxy listens, which is the one that all know it by, at the
other its server. Who has opened a connection is found out by the process that owns the other end. What a cut holds back
is delivered once it is mended, as a network that loses packets does: nobody hears of the cut but by silence.

The proxy runs in a thread of its own. The clients, which no host owns, reach everybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.torture.network import PORT, Host

_CHUNK = 1 << 16
T = TypeVar("T")


class ProxyNetwork:
    """See `tests.torture.network.Network`. `processes` gives the process of each host that runs."""

    def __init__(self) -> None:
        self.processes: Callable[[], dict[int, str]] = dict
        self._hosts: dict[str, Host] = {}
        self._delays: dict[tuple[str, str], float] = {}
        self._links: dict[tuple[str, str], asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True).start()

    def add(self, name: str) -> Host:
        number = len(self._hosts) + 1
        host = self._hosts[name] = Host(name, f"127.77.{number}.2", f"127.77.{number}.3")
        self._do(asyncio.start_server(partial(self._serve, host), host.ip, PORT))
        return host

    def cut(self, links: Iterable[tuple[Host, Host]]) -> None:
        """From now on nothing gets from the first to the second of each pair."""
        self._do(self._switch(list(links), passing=False))

    def mend(self, links: Iterable[tuple[Host, Host]]) -> None:
        self._do(self._switch(list(links), passing=True))

    def delay(self, links: Iterable[tuple[Host, Host]], seconds: float) -> None:
        """What goes from the first to the second of each pair takes so long; 0 ends that."""
        self._delays |= {(a.name, b.name): seconds for a, b in links}

    def heal(self) -> None:
        self._delays.clear()
        hosts = list(self._hosts.values())
        self.mend([(a, b) for a in hosts for b in hosts])

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _switch(self, links: Sequence[tuple[Host, Host]], *, passing: bool) -> None:
        for a, b in links:
            event = self._link(a.name, b.name)
            if passing:
                event.set()
            else:
                event.clear()

    def _link(self, a: str, b: str) -> asyncio.Event:
        if (a, b) not in self._links:
            self._links[a, b] = event = asyncio.Event()
            event.set()
        return self._links[a, b]

    async def _serve(self, host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = self._owner(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
        out: asyncio.StreamWriter | None = None
        try:
            if source:
                # To open a connection takes a packet there and one back.
                await self._link(source, host.name).wait()
                await self._link(host.name, source).wait()
            back, out = await asyncio.open_connection(host.bound, PORT)
            await asyncio.gather(
                self._carry(reader, out, source, host.name), self._carry(back, writer, host.name, source)
            )
        except OSError:
            pass
        finally:
            for each in (writer, out):
                if each is not None:
                    each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, a: str, b: str) -> None:
        while data := await reader.read(_CHUNK):
            await self._cross(a, b)
            writer.write(data)
            await writer.drain()
        await self._cross(a, b)
        raise ConnectionError("the other side has closed")

    async def _cross(self, a: str, b: str) -> None:
        if a and b:
            await asyncio.sleep(self._delays.get((a, b), 0))
            await self._link(a, b).wait()

    def _owner(self, theirs: tuple[str, int], ours: tuple[str, int]) -> str:
        """The host whose process owns the other end of a connection; empty for a client's."""
        local, remote = f":{theirs[1]:04X}", f":{ours[1]:04X}"
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(local) and fields[2].endswith(remote):
                wanted = f"socket:[{fields[9]}]"
                for pid, name in self.processes().items():
                    with contextlib.suppress(OSError):
                        folder = Path(f"/proc/{pid}/fd")
                        if any(os.readlink(each) == wanted for each in folder.iterdir()):
                            return name
        return ""
