"""The recipient's side of a migration, as decisions only. It does what the donor asks; the donor alone decides.

    CLEARING    waiting until earlier deletions that overlap the range are done
    PERSISTING  the collection, its indexes and the pending range deletion are being written (majority)
    SWEEPING    leftovers in the range are being deleted
    RECEIVING   batches and changes are taken, in the donor's numbering
    SECURING    what was received is becoming majority-committed
    SECURED     it is: the donor may commit
    ENDED       resolved, or failed; a failed one refuses everything, its range deletion stays pending until resolved

Always true:

* the pending range deletion is majority-committed before the first document is taken, so whatever happens, someone
  knows
  what to delete;
* batches are applied once each and in order: a repeated number is acknowledged and ignored, a skipped one fails;
* SECURED is left only by the donor's decision or by silence; nothing is taken in it.
"""

from __future__ import annotations

from enum import Enum, auto

from docstore.errors import Code, CommandError
from docstore.sharding.migration import Migration

SILENCE_SECONDS = 90.0
"""A donor that says nothing for so long has gone; its successor starts a new migration."""


class State(Enum):
    """See the module's heading."""

    CLEARING = auto()
    PERSISTING = auto()
    SWEEPING = auto()
    RECEIVING = auto()
    SECURING = auto()
    SECURED = auto()
    ENDED = auto()


_ORDER = (State.CLEARING, State.PERSISTING, State.SWEEPING, State.RECEIVING)


class Recipient:
    """One migration on the recipient's primary."""

    def __init__(self, migration: Migration, now: float) -> None:
        self.migration = migration
        self.state = State.CLEARING
        self.reason = ""
        self._next = 1
        self._heard = now

    def prepared(self, step: State) -> State:
        """The step of preparation that was asked for is done; the next one, RECEIVING when all are.

        OperationFailed when the migration ended meanwhile.
        """
        if self.state is State.ENDED:
            raise self._refusal()
        assert step is self.state, f"{step} done in {self.state}"
        assert step in _ORDER[:-1], f"{step} is no step of preparation"
        self.state = _ORDER[_ORDER.index(step) + 1]
        return self.state

    def take(self, number: int, now: float) -> bool:
        """Whether the batch with this number is to be applied (false: it has been). OperationFailed when it is out of
        order or the migration does not take documents."""
        self._heard = now
        if self.state is not State.RECEIVING:
            raise self._refusal()
        if number < self._next:
            return False
        if number > self._next:
            self.fail(f"batch {number} came before batch {self._next}")
            raise self._refusal()
        self._next += 1
        return True

    def secure(self, last: int, now: float) -> bool:
        """The donor has sent all, up to batch `last`: whether a majority must be waited for (false: it has it)."""
        self._heard = now
        if self.state is State.SECURED:
            return False
        if self.state is State.RECEIVING and last != self._next - 1:
            self.fail(f"batch {self._next - 1} is the last received, not {last}")
        if self.state not in (State.RECEIVING, State.SECURING):
            raise self._refusal()
        self.state = State.SECURING
        return True

    def secured(self) -> None:
        """A majority has all that was received."""
        if self.state is State.ENDED:
            raise self._refusal()
        self.state = State.SECURED

    def fail(self, reason: str) -> None:
        """Nothing more is taken; the donor hears of it with its next request."""
        if self.state is not State.ENDED:
            self.state = State.ENDED
            self.reason = reason

    def tick(self, now: float) -> None:
        """Fail when the donor has gone silent."""
        if self.state is not State.ENDED and now - self._heard > SILENCE_SECONDS:
            self.fail("the donor went silent")

    def heard(self, now: float) -> None:
        """The donor has asked for something."""
        self._heard = now

    def _refusal(self) -> CommandError:
        return CommandError(
            Code.OperationFailed,
            f"migration of {self.migration.namespace} {self.migration.range} does not take this while "
            f"{self.state.name.lower()}{': ' + self.reason if self.reason else ''}",
        )
