"""Offloaded updates: evaluation of scripts, large documents and their index keys while other tasks may write.

Scripts run in another process, and the request waits for them within a step (`docstore.js.script_thread`). Meanwhile
the documents, the node's role and the shard's ranges may change.

* A step in which other tasks ran commits nothing: it raises `Overtaken` and is entered again.
* Results are cached by document, so the next attempt evaluates only documents that have changed.
* The same holds for updates of large documents, for their index keys, for the plan of a long filter, and for what a
  validator says of a document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from docstore.collection.collection import Collection, Index
from docstore.collection.index.ahead import KeysAhead, keys_take_long
from docstore.collection.read.matching import PlannedSearch
from docstore.collection.read.prepared import has_expression
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.js.script_thread import Turns, current
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.node.write.modification import Modification
from docstore.node.write.validators import Validator
from docstore.query.pausing import OVERTAKEN, allowing
from docstore.query.scripts import ScriptsWanted

_PATIENCE = 8
_States = tuple[tuple["Index", int, bool], ...]
"""State of the indexes that a plan depends on: the index, its multikey places, whether it is hidden."""

T = TypeVar("T")


class Overtaken(Exception):
    """Other tasks ran in this step: nothing was written, and the step must be entered again."""


class Evaluated:
    """Cached evaluation of one statement on a thread that takes turns with the loop."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._begun = turns.taken
        # None: the update leaves the document as it is.
        self._kept: dict[bytes, bytes | CommandError | None] = {}
        # The verdicts of validators; None: the document is valid.
        self._verdicts: dict[tuple[bytes, bool, bytes | None, bytes], CommandError | None] = {}
        self._made: bytes | None = None
        self._ahead = KeysAhead()
        self._overtaken = 0
        self._planned: tuple[Collection, _States, PlannedSearch] | None = None

    def begin(self) -> None:
        """Begin a step in which documents are read and written."""
        self._begun = self._turns.taken

    @property
    def overtaken(self) -> bool:
        """True if other tasks have run in this step."""
        return self._turns.taken != self._begun

    def check(self) -> None:
        """Raise Overtaken if other tasks have run in this step; call before a commit."""
        if self.overtaken:
            self._overtaken += 1
            raise Overtaken

    def aside(self, make: Callable[[], T]) -> T:
        """Return `make()`, during which other tasks may run; `check` tells whether they did.

        After `_PATIENCE` conflicts `make` runs without yielding.
        """
        return make() if self._overtaken > _PATIENCE else allowing(OVERTAKEN, make)

    def planned(self, coll: Collection, make: Callable[[], PlannedSearch]) -> PlannedSearch:
        """Return a plan, reusing one from an earlier attempt while the indexes are unchanged.

        Errors: Overtaken.
        """
        states = tuple([(index, index.array_bits, index.hidden) for index in coll.indexes.values()])
        if self._planned is None or self._planned[:2] != (coll, states):
            self.begin()
            self._planned = coll, states, self.aside(make)
            self.check()
        return self._planned[2]

    def apply(self, modification: Modification, before: bytes) -> bytes:
        """Apply `modification`, reusing the result, or the error, of an earlier attempt on the same document."""
        if before not in self._kept:
            try:
                after = self.aside(partial(modification.apply, before))
            except CommandError as error:
                self._kept[before] = error
            else:
                self._kept[before] = None if after is before else after
        outcome = self._kept[before]
        if isinstance(outcome, CommandError):
            raise outcome
        return before if outcome is None else outcome

    def check_valid(self, validator: Validator, before: bytes | None, after: bytes) -> None:
        """Check an update, or an insertion without `before`, reusing the result of an earlier attempt.

        Errors: DocumentValidationFailure.
        """
        key = validator.raw, validator.moderate, before, after
        if key not in self._verdicts:
            try:
                self.aside(partial(validator.check, before, after))
            except CommandError as error:
                self._verdicts[key] = error
            else:
                self._verdicts[key] = None
        verdict = self._verdicts[key]
        if verdict is not None:
            raise verdict

    def keys(
        self, coll: Collection, documents: tuple[bytes, ...], changed: frozenset[bytes] | None = None
    ) -> KeysAhead | None:
        """Return the index keys of the documents, precomputed, if one of them is large.

        `changed`: as in `KeysAhead`. None if all are small, or after `_PATIENCE` conflicts: then the write computes
        them itself. Errors: Overtaken.
        """
        if self._overtaken > _PATIENCE or not any(keys_take_long(coll, raw) for raw in documents):
            return None
        for raw in documents:
            self.aside(partial(self._ahead.calculate, coll, raw, changed))
        self.check()
        return self._ahead

    def upsert(
        self, modification: Modification, coll: Collection | None, validator: Validator | None
    ) -> tuple[bytes, KeysAhead | None]:
        """Return (`Modification.upsert`, its precomputed index keys), evaluated and validated in a step of its own.

        Errors: Overtaken, DocumentValidationFailure.
        """
        self.begin()
        if self._made is None:
            self._made = self.aside(modification.upsert)
        if validator is not None:
            self.check_valid(validator, None, self._made)
        index_keys = None if coll is None else self.keys(coll, (self._made,))
        self.check()
        return self._made, index_keys

    def committed(self) -> None:
        """Drop the cached results after a commit."""
        self._kept.clear()
        self._verdicts.clear()
        self._ahead.clear()
        self._overtaken = 0


def evaluated() -> Evaluated | None:
    """Return the cache for a statement that may have to wait; None for one that nothing interrupts."""
    turns = current()
    return None if turns is None else Evaluated(turns)


def enter_long(context: Context, statements: Iterable[bytes]) -> None:
    """Offload statements that may take long before the first one begins.

    Parsing, planning and keys take long where a statement has more than LARGE_BYTES, the search where its filter has
    an expression: a search on the event loop cannot be entered again after an interruption. Errors: ScriptsWanted.
    """
    if context.services.carry_out is None or current() is not None:
        return
    if any(len(statement) > LARGE_BYTES or has_expression(statement) for statement in statements):
        raise ScriptsWanted
