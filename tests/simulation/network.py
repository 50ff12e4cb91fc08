"""Hosts, and the connections between their processes: bytes in order on each, late, held back, or lost with the link.

A connection is what TCP gives: bytes come in order or not at all. What a lossy network does to one is a stall (a
retransmission) or a reset. A cut link holds back what is under way; the ends notice only by their own time limits, or
by the reset that a heal may bring. Between different connections any order happens.

A process that dies has its connections closed by its host; a host that loses power says nothing, and answers with a
reset what still comes on old connections once it is up again.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
import socket
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tests.simulation.interpreter import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.process import Incarnation
    from tests.simulation.world import World

_OP_MSG = (2013).to_bytes(4, "little")
_MAY_COME_TWICE = (b"txnNumber\0", b"replSet")
"""What commands say that mean the same however often they come: retryable writes, and those of members."""
_IN_TRANSACTION, _ENDS_IT = b"autocommit\0", (b"commitTransaction\0", b"abortTransaction\0")
"""Of a transaction's requests only the last one may come twice."""

_END = object()
"""In the stream of a connection: the end, in order."""


class BoundSocket:
    """What `docstore.net.sockets.bind` gives in a world."""

    family = socket.AF_INET

    def __init__(self, network: Network, host: str, port: int) -> None:
        self._network = network
        self.address = (host, port)

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def close(self) -> None:
        self._network.unlisten(self.address)

    def setsockopt(self, *_arguments: Any) -> None:
        """Options of the system's sockets have no meaning here."""


class _Server:
    def __init__(self, socket: BoundSocket) -> None:
        self._socket = socket
        self.sockets = (socket,)

    def close(self) -> None:
        self._socket.close()


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, host: str, owner: Incarnation | None, context: Context) -> None:
        super().__init__()
        self.network = network
        self.host = host
        self.owner = owner
        self.context = context
        self.protocol: Any = None
        self.peer: SimulatedTransport | None = None
        self.peer_name: tuple[str, int] | None = None
        self.closing = False
        self.lost = False
        self.arrives = 0.0
        self.pipe: deque[Any] = deque()
        self.stalled = False
        self._unread: deque[Any] = deque()
        self._reading = True
        self._under_way = 0
        self._high = 64 * 1024
        self._writing_paused = False

    # For the protocol

    def write(self, data: bytes) -> None:
        if self.closing or not data:
            return
        self._under_way += len(data)
        self.network.carry(self, bytes(data))
        if self._under_way > self._high and not self._writing_paused:
            self._writing_paused = True
            self.protocol.pause_writing()

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.network.carry(self, _END)
            self._lose(None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        while self._unread and self._reading:
            self._hand_over(self._unread.popleft())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high = high

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self.peer_name
        return BoundSocket(self.network, self.host, 0) if name == "socket" else default

    # For the network

    def receive(self, data: Any) -> None:
        """Bytes have come, or the other side's end."""
        if self.lost or (self.owner is not None and not self.owner.alive):
            return
        if self._reading:
            self._hand_over(data)
        else:
            self._unread.append(data)

    def taken(self, size: int) -> None:
        """So many bytes have left for good."""
        self._under_way -= size
        if self._writing_paused and self._under_way <= self._high // 4 and not self.lost:
            self._writing_paused = False
            self.network.loop.call_soon(self._resume_writing, context=self.context.copy())

    def _resume_writing(self) -> None:
        if not self.lost:
            self.protocol.resume_writing()

    def reset(self) -> None:
        """The connection is gone."""
        if not self.closing:
            self.closing = True
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _hand_over(self, data: Any) -> None:
        self.network.loop.call_soon(self._deliver, data, context=self.context.copy())

    def _deliver(self, data: Any) -> None:
        if self.closing:
            return
        if data is _END:
            self.protocol.eof_received()
            self.close()
        else:
            self.protocol.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            if self.protocol is None:
                return  # Not accepted yet.
            self.network.loop.call_soon(self.protocol.connection_lost, error, context=self.context.copy())


class Network:
    """Of one world. Hosts are names; `cut` holds the directed pairs of hosts between which nothing passes."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self.dice = dice
        self.loop = world.loop
        self.base, self.jitter = 0.0003, 0.0005
        self.stall_probability, self.reset_probability = 0.0, 0.0
        self.stall_seconds = 0.3
        self.duplicate_probability = 0.0
        """How many of the commands that may come twice do, again on a connection of its own, perhaps much later."""
        self.slow: dict[tuple[str, str], float] = {}
        self.cut: set[tuple[str, str]] = set()
        self.healed_at = 0.0
        self.silent: set[str] = set()
        """Hosts without power."""
        self._listening: dict[tuple[str, int], tuple[Any, Context, Incarnation | None]] = {}
        self._ends: dict[SimulatedTransport, None] = {}
        self._numbers: dict[str, int] = {}
        self._ports = 30000
        self.messages = 0

    # Sockets

    def resolve(self, host: str, port: int) -> list[Any]:
        number = self._numbers.setdefault(host, len(self._numbers) + 1)
        return [(2, 1, 6, "", (f"10.0.{number >> 8}.{number & 255}", port))]

    def bind(self, addresses: Any, port: int) -> list[BoundSocket]:
        """As `docstore.net.sockets.bind`."""
        taken = [host for host in addresses if (host, port) in self._listening]
        if taken:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        return [BoundSocket(self, host, port) for host in addresses]

    def listen(self, socket: BoundSocket, factory: Any) -> _Server:
        self._listening[socket.address] = (factory, contextvars.copy_context(), CURRENT.get())
        return _Server(socket)

    def unlisten(self, address: tuple[str, int]) -> None:
        self._listening.pop(address, None)

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        owner = CURRENT.get()
        here = "client" if owner is None else owner.machine.name
        await self._pass(here, host)
        listening = self._listening.get((host, port))
        if listening is None:
            await self._pass(host, here)
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        server_factory, context, server_owner = listening
        client = SimulatedTransport(self, here, owner, contextvars.copy_context())
        server = SimulatedTransport(self, host, server_owner, context.copy())
        client.peer, server.peer = server, client
        self._ports += 1
        client.peer_name, server.peer_name = (host, port), (here, self._ports)
        self._ends[client] = self._ends[server] = None
        client.protocol = factory()
        self.loop.call_soon(self._accept, server, server_factory, context=server.context.copy())
        await self._pass(host, here)
        if client.lost:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        client.protocol.connection_made(client)
        return client, client.protocol

    @staticmethod
    def _accept(server: SimulatedTransport, factory: Callable[[], Any]) -> None:
        if server.lost:
            return
        server.protocol = factory()
        server.protocol.connection_made(server)

    async def _pass(self, source: str, target: str) -> None:
        """One trip of a handshake; it is tried again while nothing gets through, at growing intervals."""
        await asyncio.sleep(self.delay(source, target))
        pause = 0.2
        while self.blocked(source, target):
            await asyncio.sleep(pause)
            pause = min(pause * 2, 3.0)

    # Carrying

    def blocked(self, source: str, target: str) -> bool:
        return (source, target) in self.cut or source in self.silent or target in self.silent

    def delay(self, source: str, target: str) -> float:
        """Of one packet, in seconds."""
        seconds = self.base + self.dice.expovariate(1 / self.jitter)
        if source == target:
            return seconds / 10
        if self.stall_probability and self.dice.random() < self.stall_probability:
            seconds += self.dice.uniform(0.2, 1.0) * self.stall_seconds
        return seconds + self.slow.get((source, target), 0.0)

    def carry(self, end: SimulatedTransport, data: Any) -> None:
        """Bring what an end has sent to the other one, in order."""
        peer = end.peer
        assert peer is not None
        self.messages += 1
        if self.reset_probability and self.dice.random() < self.reset_probability:
            self.break_off(end)
            return
        if self.duplicate_probability and data is not _END and self._may_come_twice(end, data):
            self._world.after(self.dice.choice((0.001, 0.05, 0.5, 3.0)) * self.dice.random(), self._repeat, end, data)
        end.pipe.append(data)
        if not end.stalled:
            if self.blocked(end.host, peer.host):
                end.stalled = True
            else:
                self._send(end)

    def _may_come_twice(self, end: SimulatedTransport, data: bytes) -> bool:
        whole = len(data) > 16 and int.from_bytes(data[:4], "little") == len(data) and data[12:16] == _OP_MSG
        if not whole or end.peer_name not in self._listening or not any(name in data for name in _MAY_COME_TWICE):
            return False
        if _IN_TRANSACTION in data and not any(name in data for name in _ENDS_IT):
            return False
        return self.dice.random() < self.duplicate_probability

    def _repeat(self, end: SimulatedTransport, data: bytes) -> None:
        """Bring a command once more; nobody is there to hear the answer."""
        assert end.peer_name is not None
        listening = self._listening.get(end.peer_name)
        if listening is None or self.blocked(end.host, end.peer_name[0]):
            return
        factory, context, owner = listening
        client = SimulatedTransport(self, end.host, None, contextvars.copy_context())
        server = SimulatedTransport(self, end.peer_name[0], owner, context.copy())
        client.peer, server.peer = server, client
        self._ports += 1
        client.peer_name, server.peer_name = end.peer_name, (end.host, self._ports)
        self._ends[client] = self._ends[server] = None
        client.protocol = asyncio.Protocol()
        self.loop.call_soon(self._accept, server, factory, context=server.context.copy())
        self._world.tell(end.host, f"sends once more to {end.peer_name[0]}")
        client.write(data)
        self._world.after(5.0, client.close)

    def _send(self, end: SimulatedTransport) -> None:
        assert end.peer is not None
        end.arrives = max(end.arrives, self._world.now + self.delay(end.host, end.peer.host))
        self._world.call_at(end.arrives, self._arrive, end)

    def _arrive(self, end: SimulatedTransport) -> None:
        """The oldest of what is under way has come, unless the link was cut meanwhile."""
        peer = end.peer
        assert peer is not None
        if not end.pipe or end.stalled:
            return
        if self.blocked(end.host, peer.host):
            end.stalled = True
            return
        data = end.pipe.popleft()
        if peer.lost or (peer.owner is not None and not peer.owner.alive):
            # Nobody is there any more: whoever still writes hears of it.
            if data is not _END:
                self._world.call_at(self._world.now + self.delay(peer.host, end.host), self._refuse, end)
        else:
            peer.receive(data)
        if data is _END:
            self._ends.pop(end, None)
        elif end.owner is None or end.owner.alive:
            end.taken(len(data))

    def _refuse(self, end: SimulatedTransport) -> None:
        if end.owner is None or end.owner.alive:
            end.reset()

    def break_off(self, end: SimulatedTransport) -> None:
        """Both ends see a reset; what was under way is lost."""
        for each in (end, end.peer):
            if each is not None and (each.owner is None or each.owner.alive):
                each.pipe.clear()
                self._world.call_at(self._world.now + self.delay(end.host, end.host), each.reset)

    # Faults

    def died(self, owner: Incarnation, *, silently: bool) -> None:
        """A process has ended: its ports answer no more, its connections are closed by its host, or go silent."""
        for address, (_, _, listener) in list(self._listening.items()):
            if listener is owner:
                del self._listening[address]
        for end in list(self._ends):
            if end.owner is owner:
                if silently:
                    end.pipe.clear()
                elif not end.closing:
                    self.carry(end, _END)
                end.closing = end.lost = True
                self._ends.pop(end, None)

    def partition(self, sides: list[list[str]]) -> None:
        """Hosts talk within a side only."""
        for number, side in enumerate(sides):
            for other in sides[number + 1 :]:
                self.cut.update((a, b) for a in side for b in other)
                self.cut.update((b, a) for a in side for b in other)

    def heal(self, *, resets: float = 0.3) -> None:
        """Nothing is cut any more; of the connections over a cut, so many a part are reset."""
        self.cut.clear()
        self.healed_at = self._world.now
        self._send_held(resets)

    def power(self, host: str, *, on: bool) -> None:
        if on:
            self.silent.discard(host)
            self._send_held(0.0)
        else:
            self.silent.add(host)

    def _send_held(self, resets: float) -> None:
        for end in list(self._ends):
            if end.stalled and end.peer is not None and not self.blocked(end.host, end.peer.host):
                end.stalled = False
                if self.dice.random() < resets:
                    self.break_off(end)
                    continue
                for _ in range(len(end.pipe)):
                    self._send(end)

    @property
    def connections(self) -> int:
        return len(self._ends)
