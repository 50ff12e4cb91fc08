"""What an update with scripts makes of documents, though others write while its scripts are waited for.

Scripts run in another process, and the request waits for them in the middle of a step (`docstore.js.script_thread`).
The documents, the role of the node and what the shard owns may have changed then. So a step in which others ran
commits nothing: it ends with `Overtaken` and is entered anew. What its scripts answered is kept by document, so the
next attempt waits only for documents that have changed.
"""

from __future__ import annotations

from docstore.errors import CommandError
from docstore.js.script_thread import Turns, current
from docstore.node.write.modification import Modification


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

    def begin(self) -> None:
        """A step begins in which documents are read and written."""
        self._begun = self._turns.taken

    def check(self) -> None:
        """Before anything is committed. Errors: Overtaken."""
        if self._turns.taken != self._begun:
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

    def upsert(self, modification: Modification) -> bytes:
        """As `Modification.upsert`, in a step of its own. Errors: Overtaken."""
        self.begin()
        if self._made is None:
            self._made = modification.upsert()
        self.check()
        return self._made

    def committed(self) -> None:
        """What is kept has done its duty."""
        self._kept.clear()


def evaluated() -> Evaluated | None:
    """For a statement that may have to wait for scripts; None for others, which nothing interrupts."""
    turns = current()
    return None if turns is None else Evaluated(turns)
