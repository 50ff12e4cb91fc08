"""The open connections of the console, of which one that asks for nothing makes room for the next.

Always true: at most `most` are open; one whose request is being answered, or that has sent a whole request or come
within `quiet_seconds`, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tornado.iostream import IOStream


class OpenStreams:
    """`clock`: monotonic seconds."""

    def __init__(self, most: int, quiet_seconds: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._quiet_seconds = quiet_seconds
        self._clock = clock
        # When each came or had its last whole request, the earliest first; those being answered are in `_answering`.
        self._active: dict[IOStream, float] = {}
        self._answering: set[IOStream] = set()

    def admit(self, stream: IOStream) -> bool:
        """Return whether there is room for one more, perhaps by closing another."""
        for candidate in [candidate for candidate in self._active if candidate.closed()]:
            del self._active[candidate]
        self._answering.intersection_update(self._active)
        if len(self._active) >= self._most:
            before = self._clock() - self._quiet_seconds
            quiet = next((candidate for candidate in self._active if candidate not in self._answering), None)
            if quiet is None or self._active[quiet] > before:
                return False
            del self._active[quiet]
            quiet.close()
        self._active[stream] = self._clock()
        return True

    def answering(self, stream: IOStream) -> None:
        """Note that a whole request has arrived."""
        self._answering.add(stream)

    def answered(self, stream: IOStream) -> None:
        """The request has its answer."""
        self._answering.discard(stream)
        if self._active.pop(stream, None) is not None:
            self._active[stream] = self._clock()

    def __iter__(self) -> Iterator[IOStream]:
        return iter(list(self._active))

    def __len__(self) -> int:
        return len(self._active)
