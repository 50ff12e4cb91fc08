"""The host of commands, as the dispatcher sees it: its role in a set, its switches, the plans of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from docstore.commands.concerns import ReadPreference
from docstore.commands.limits import DEFAULT_FACE, Face
from docstore.errors import no_scripting
from docstore.wire.compression import COMPRESSOR_IDS

if TYPE_CHECKING:
    from docstore.commands.gossip import EncodedGossip


class Host(Protocol):
    """The node of the executable: its role in a replica set, and its cluster time."""

    def check_write(self) -> None:
        """Errors: NotWritablePrimary unless writes are allowed here."""

    def check_read(self, read_preference: ReadPreference) -> None:
        """Errors: NotPrimaryNoSecondaryOk or NotPrimaryOrSecondary if the read must not run here."""

    def gossip(self) -> EncodedGossip:
        """Return `operationTime` and `$clusterTime` for replies, or nothing.

        Return the same object while nothing has changed: callers cache by it.
        """

    def observe_cluster_time(self, time: int) -> None:
        """Observe a request's cluster time, packed."""

    def state_version(self) -> Mapping[str, Any] | None:
        """Return `{processId, counter}` of a replica set member, for errors that report a state change."""


class Execution(Protocol):
    """The plans of a request. `counts`: its results, under the names of the log."""

    counts: dict[str, int]

    def figures(self) -> dict[str, Any]:
        """Return the plans' summary and counters, as the log and the profiler show them."""


@dataclass(slots=True)
class Switches:
    """Switches for all commands of a process, set by options and setParameter."""

    require_api_version: bool = False
    """Refuse requests without an API version."""
    compressors: tuple[str, ...] = tuple(COMPRESSOR_IDS)
    """The compressors offered to clients."""
    scripting: bool = True
    """Run JavaScript for clients."""
    profiled: frozenset[str] = frozenset()
    """The databases whose requests count exactly what they examine."""
    slow_ms: int = 100
    """The milliseconds from which a request is slow: it is logged, and recorded by profiles of level 1."""
    face: Face = DEFAULT_FACE
    """The emulated MongoDB version; it does not change."""

    def check_scripting(self) -> None:
        """Errors: 31264 if JavaScript is disabled."""
        if not self.scripting:
            raise no_scripting()
