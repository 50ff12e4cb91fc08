"""What an update makes of documents, though others write while its scripts, or keys of large documents, are made.

Scripts run in another process, and the request waits for them in the middle of a step (`docstore.js.script_thread`).
The documents, the role of the node and what the shard owns may have changed then. So a step in which others ran
commits nothing: it ends with `Overtaken` and is entered anew. What its scripts answered is kept by document, so the
next attempt waits only for documents that have changed. So it is with what becomes of large documents and with their
index keys, which are made where others may run, and with the plan of a long filter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from docstore.collection.collection import Collection, Index
from docstore.collection.index.ahead import KeysAhead, keys_take_long
from docstore.collection.read.matching import PlannedSearch
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.js.script_thread import Turns, current
from docstore.js.scripts import RUNNING
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.node.write.modification import Modification
from docstore.query.pausing import OVERTAKEN, allowing

_PATIENCE = 8
_States = tuple[tuple["Index", int, bool], ...]
"""What plans are made of: the indexes, where they have met arrays, whether they are hidden."""

T = TypeVar("T")


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
        self._planned: tuple[Collection, _States, PlannedSearch] | None = None

    def begin(self) -> None:
        """A step begins in which documents are read and written."""
        self._begun = self._turns.taken

    @property
    def overtaken(self) -> bool:
        """Whether others have run in this step."""
        return self._turns.taken != self._begun

    def check(self) -> None:
        """Before anything is committed. Errors: Overtaken."""
        if self.overtaken:
            self._overtaken += 1
            raise Overtaken

    def aside(self, make: Callable[[], T]) -> T:
        """What `make` gives, while others may run: `check` tells whether they did. One that they overtake again and
        again is left alone."""
        return make() if self._overtaken > _PATIENCE else allowing(OVERTAKEN, make)

    def planned(self, coll: Collection, make: Callable[[], PlannedSearch]) -> PlannedSearch:
        """A plan; the one that was made in a step that was overtaken, while the indexes are as they were.

        Errors: Overtaken.
        """
        states = tuple([(index, index.places, index.hidden) for index in coll.indexes.values()])
        if self._planned is None or self._planned[:2] != (coll, states):
            self.begin()
            self._planned = coll, states, self.aside(make)
            self.check()
        return self._planned[2]

    def apply(self, modification: Modification, before: bytes) -> bytes:
        """As `Modification.apply`."""
        if before not in self._kept:
            try:
                after = self.aside(partial(modification.apply, before))
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
        if self._overtaken > _PATIENCE or not any(keys_take_long(coll, raw) for raw in documents):
            return None
        for raw in documents:
            self.aside(partial(self._ahead.calculate, coll, raw, changed))
        self.check()
        return self._ahead

    def upsert(self, modification: Modification, coll: Collection | None) -> tuple[bytes, KeysAhead | None]:
        """(as `Modification.upsert`, its keys), in a step of its own. Errors: Overtaken."""
        self.begin()
        if self._made is None:
            self._made = self.aside(modification.upsert)
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


def enter_large(context: Context, size: int) -> None:
    """Said before anything is carried out of a statement that is so large: parsing and planning it, and the keys of
    what it makes of a document, may take a while. Errors: ScriptsWanted.
    """
    if size > LARGE_BYTES and context.services.carry_out is not None:
        RUNNING.enter()
