"""Temporary collections that another process fills here: a router, or a secondary that runs the pipeline.

The primary that makes such a collection remembers its uuid, in memory and for one term. Inserts into it, and the rename
or merge that shows it, are marked as an output's. Any other primary refuses them, the same one refuses them in a later
term, and both refuse another collection of the name: documents that were acknowledged before may be missing there.

Always true: a temporary collection may be dropped at any time. That fails its operation, and never shows a part of the
results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.errors import Code, CommandError

MAX_IDLE_SECONDS = 24 * 3600.0
"""How long a collection stays that nobody writes to. Its pipeline may still work on the first result, however long it
sorts; a router that was killed asks for nothing more."""


@dataclass(slots=True)
class _RemoteOutput:
    uuid: UUID
    term: int | None
    used: float


class RemoteOutputs:
    """The collections of this primary that are filled from elsewhere. `clock`: monotonic seconds."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._outputs: dict[str, _RemoteOutput] = {}

    def add(self, collection: Collection) -> None:
        """Remember a collection, in the step in which it is made."""
        self._outputs[collection.ns] = _RemoteOutput(collection.uuid, self._term(), self._clock())

    def check(self, namespace: str) -> None:
        """Errors: InterruptedDueToReplStateChange where another primary, or this one in another term, has made it;
        17216 where it was dropped."""
        output = self._outputs.get(namespace)
        if output is None or output.term != self._term():
            raise CommandError(
                Code.InterruptedDueToReplStateChange, f"this primary has not made {namespace}, or not in this term"
            )
        if not self._stands(namespace, output):
            raise CommandError(17216, f"the collection that is filled was dropped: {namespace}")
        output.used = self._clock()

    def complete(self, namespace: str) -> None:
        """Forget a collection, in the step in which its results are shown. Errors: those of `check`."""
        self.check(namespace)
        del self._outputs[namespace]

    def __contains__(self, namespace: str) -> bool:
        """Return True while the operation that fills the collection can continue."""
        output = self._outputs.get(namespace)
        return output is not None and output.term == self._term() and self._stands(namespace, output)

    def forget_idle(self) -> list[str]:
        """Forget those that are over, or idle for `MAX_IDLE_SECONDS`. Return the idle ones, which nobody may write
        to any more."""
        before, idle = self._clock() - MAX_IDLE_SECONDS, []
        for namespace, output in [*self._outputs.items()]:
            if namespace not in self:
                del self._outputs[namespace]
            elif output.used < before:
                del self._outputs[namespace]
                idle.append(namespace)
        return idle

    def _stands(self, namespace: str, output: _RemoteOutput) -> bool:
        collection = self._store.collection(namespace)
        return collection is not None and collection.uuid == output.uuid

    def _term(self) -> int | None:
        oplog = self._store.oplog
        return None if oplog is None else oplog.term
