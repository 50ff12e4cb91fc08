"""What an update makes of documents, though others write while its scripts, or keys of large documents, are made.

Scripts run in another process, and the request waits for them in the middle of a step (`docstore.js.script_thread`).
The documents, the role of the node and what the shard owns may have changed then. So a step in which others ran
commits nothing: it ends with `Overtaken` and is entered anew. What its scripts answered is kept by document, so the
next attempt waits only for documents that have changed. So it is with the index keys of large documents, which are
calculated where others may run.
"""

from __future__ import annotations

from docstore.collection.collection import Collection
from docstore.collection.index.ahead import LARGE_BYTES, KeysAhead
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.js.script_thread import Turns, current
from docstore.js.scripts import RUNNING
from docstore.node.node import DataNode
from docstore.node.write.modification import Modification
from docstore.query.pausing import OVERTAKEN, PAUSING

_PATIENCE = 8


class Overtaken(Exception):
    """Others ran in this step: nothing was written, and it is to be made anew."""


class Evaluated:
    """Of one statement on a thread that takes turns with the loop."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._begun = turns.taken
        # None: the update leaves the document as it is.
        self._kept: dict[bytes, bytes | CommandError | None] = {}
        self._made: bytes | None = None
        self._ahead = KeysAhead()
        self._overtaken = 0

    def begin(self) -> None:
        """A step begins in which documents are read and written."""
        self._begun = self._turns.taken

    def check(self) -> None:
        """Before anything is committed. Errors: Overtaken."""
        if self._turns.taken != self._begun:
            self._overtaken += 1
            raise Overtaken

    def apply(self, modification: Modification, before: bytes) -> bytes:
        """As `Modification.apply`."""
        if before not in self._kept:
            try:
                after = modification.apply(before)
            except CommandError as error:
                self._kept[before] = error
            else:
                self._kept[before] = None if after is before else after
        kept = self._kept[before]
        if isinstance(kept, CommandError):
            raise kept
        return before if kept is None else kept

    def keys(
        self, coll: Collection, documents: tuple[bytes, ...], changed: frozenset[bytes] | None = None
    ) -> KeysAhead | None:
        """The index keys of what is written, where one of the documents is large. `changed`: as in `KeysAhead`.

        One that others change again and again has them calculated at once. Errors: Overtaken.
        """
        if not coll.secondary or max(map(len, documents)) <= LARGE_BYTES or self._overtaken > _PATIENCE:
            return None
        level, PAUSING.level = PAUSING.level, OVERTAKEN
        try:
            for raw in documents:
                self._ahead.calculate(coll, raw, changed)
        finally:
            PAUSING.level = level
        self.check()
        return self._ahead

    def upsert(self, modification: Modification, coll: Collection | None) -> tuple[bytes, KeysAhead | None]:
        """(as `Modification.upsert`, its keys), in a step of its own. Errors: Overtaken."""
        self.begin()
        if self._made is None:
            self._made = modification.upsert()
        ahead = None if coll is None else self.keys(coll, (self._made,))
        self.check()
        return self._made, ahead

    def committed(self) -> None:
        """What is kept has done its duty."""
        self._kept.clear()
        self._ahead.clear()
        self._overtaken = 0


def evaluated() -> Evaluated | None:
    """For a statement that may have to wait; None for others, which nothing interrupts."""
    turns = current()
    return None if turns is None else Evaluated(turns)


def enter_large(context: Context, node: DataNode, size: int) -> None:
    """Said before anything is carried out of an update that is so large: the keys of what it makes of a document may
    take a while. Errors: ScriptsWanted.
    """
    if size > LARGE_BYTES and context.services.carry_out is not None:
        collection = node.store.collection(context.namespace)
        if collection is not None and collection.secondary:
            RUNNING.enter()
