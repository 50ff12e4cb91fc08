"""The host of commands as the dispatcher sees it: its role in a set, its switches, the plans of a request."""

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
        """Raise NotWritablePrimary unless writes are taken here."""

    def check_read(self, read_preference: ReadPreference) -> None:
        """Raise NotPrimaryNoSecondaryOk or NotPrimaryOrSecondary when the read may not run here."""

    def gossip(self) -> EncodedGossip:
        """`operationTime` and `$clusterTime` for replies, or nothing. Return the same object while nothing changed:
        what is made of it is kept."""

    def observe_cluster_time(self, time: int) -> None:
        """Take in a request's cluster time, packed."""

    def state_version(self) -> Mapping[str, Any] | None:
        """`{processId, counter}` of a member of a set, attached to errors that tell of a state change."""


class Execution(Protocol):
    """The plans that a request runs. `counts`: what has come of them, under the names that the log has for it."""

    counts: dict[str, int]

    def figures(self) -> dict[str, Any]:
        """Return the plans' summary and counters, as the log and the profiler show them."""


@dataclass(slots=True)
class Switches:
    """Switches that options and setParameter set for all commands of a process."""

    require_api_version: bool = False
    """Refuse requests that name no version of the Stable API."""
    compressors: tuple[str, ...] = tuple(COMPRESSOR_IDS)
    """Those that clients may agree on."""
    scripting: bool = True
    """JavaScript is run for clients."""
    profiled: frozenset[str] = frozenset()
    """The databases whose requests count exactly what they look at."""
    face: Face = DEFAULT_FACE
    """The version of MongoDB that the process passes for; it stays."""

    def check_scripting(self) -> None:
        """Errors: 31264 where none is run."""
        if not self.scripting:
            raise no_scripting()
