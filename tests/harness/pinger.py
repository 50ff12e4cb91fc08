"""Pings of a server from a process of its own, so that what measures does not wait for what works."""

from __future__ import annotations

import multiprocessing
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

import bson

_PAUSE = 0.002
_HEADER = struct.Struct("<iiii")
_PING = bson.encode({"ping": 1, "$db": "admin"})
_MESSAGE = _HEADER.pack(21 + len(_PING), 1, 0, 2013) + b"\0\0\0\0\0" + _PING


class Pinger:
    """Pings one server whenever somebody wants to know."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    @contextmanager
    def during(self) -> Iterator[list[float]]:
        """Ping while the body runs; the seconds of each ping are in the list behind it."""
        taken: list[float] = []
        self._pipe.send(True)
        self._pipe.recv()
        try:
            yield taken
        finally:
            self._pipe.send(True)
            taken += self._pipe.recv()


@contextmanager
def pinger(port: int) -> Iterator[Pinger]:
    """A process that pings the server at a port of this machine."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(port, theirs), daemon=True)
    process.start()
    theirs.close()  # else whoever waits for a pinger that has ended, as it does with its server, waits for ever
    try:
        yield Pinger(ours)
    finally:
        with suppress(BrokenPipeError):
            ours.send(False)
        process.join()


def _serve(port: int, pipe: Connection) -> None:
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while pipe.recv():
            pipe.send(None)
            taken = []
            while not pipe.poll(_PAUSE):
                taken.append(ping(link))
            pipe.recv()
            pipe.send(taken)


def ping(link: socket.socket) -> float:
    """The seconds that a ping takes."""
    began = time.monotonic()
    link.sendall(_MESSAGE)
    _read(link, _HEADER.unpack(_read(link, 16))[0] - 16)
    return time.monotonic() - began


def _read(link: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = link.recv(count - len(found))
        if not more:
            raise ConnectionError("the server has closed the connection")
        found += more
    return found
