"""Waiting for write concerns (rule 16). Event-driven: every progress checks all waiters.

The write stands in any case: a failure is a writeConcernError beside a success.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.flusher import GroupFlusher
from docstore.replicaset.waiters import Waiters
from docstore.replication.leadership import positions
from docstore.replication.progress import Acknowledgement, check_satisfiable, satisfied
from docstore.replication.state import State
from docstore.replication.states import Role

if TYPE_CHECKING:
    from docstore.commands.concerns import WriteConcern


class WriteConcernWaiters:
    """The waiting writers of one member. `clock`: monotonic seconds, for their deadlines."""

    def __init__(
        self,
        state: Callable[[], State],
        flusher: GroupFlusher,
        clock: Callable[[], float],
        *,
        in_log: Callable[[OpTime], bool],
    ) -> None:
        """`in_log` returns True if this member's oplog has the entry at an optime."""
        self._state = state
        self._in_log = in_log
        self._flusher = flusher
        self._clock = clock
        self._waiters = Waiters()

    def wake(self) -> None:
        """Check all waiters after progress, or after a step-down."""
        self._waiters.wake()

    async def wait(self, optime: OpTime | None, concern: WriteConcern, deadline: float | None) -> dict[str, Any] | None:
        """Wait for the concern; return None when it is satisfied, else the writeConcernError."""
        state = self._state()
        config = state.config
        if optime is None or optime == NULL_OPTIME or config is None or concern.w == 0:
            return None
        journal = concern.j if concern.j is not None else concern.w == "majority" and config.journal_default
        acknowledgement = Acknowledgement(w=concern.w, journal=journal)
        if concern.w == 1 and not journal:
            return None
        try:
            check_satisfiable(acknowledgement, config)
        except CommandError as refusal:
            return _concern_error(refusal.code, refusal.code_name, refusal.message, concern)
        term = state.term
        # If this member lost its primary role before the wait, the entry may not be in the current term's oplog.
        lost = optime.term != term and not self._in_log(optime)
        acknowledged = False

        def is_satisfied() -> bool:
            # In a later term the same positions may belong to another oplog: the entry may have been rolled back.
            nonlocal acknowledged
            acknowledged = acknowledged or (state.term == term and not lost and reached())
            return acknowledged

        def reached() -> bool:
            assert state.config is not None
            return satisfied(
                acknowledgement,
                optime,
                config=state.config,
                positions={} if concern.w == "majority" else positions(state),
                commit_point=state.commit_point,
                term=state.term,
            ) and (not journal or self._flusher.durable >= optime)

        def is_hopeless() -> bool:
            # A primary that steps down keeps replicating until another member can take over.
            return lost or state.role is not Role.LEADER or state.term != term

        if (journal or concern.w == "majority") and not (self._flusher.is_idle and is_satisfied()):
            self._flusher.flush_soon()
        limit, code = self._limit(concern, deadline)
        in_time = await self._waiters.wait(lambda: is_satisfied() or is_hopeless(), limit)
        if is_satisfied():
            return None
        if in_time:
            return _concern_error(
                Code.PrimarySteppedDown,
                Code.PrimarySteppedDown.name,
                "Primary stepped down while waiting for replication",
                concern,
            )
        if code is Code.WriteConcernFailed:
            return _concern_error(code, code.name, "waiting for replication timed out", concern, wtimeout=True)
        return _concern_error(code, code.name, "operation exceeded time limit", concern)

    def _limit(self, concern: WriteConcern, deadline: float | None) -> tuple[float | None, Code]:
        """Return (seconds to wait, error code afterwards)."""
        own = concern.timeout_ms / 1000 if concern.timeout_ms else None
        remaining = None if deadline is None else max(deadline - self._clock(), 0.0)
        if remaining is not None and (own is None or remaining < own):
            return remaining, Code.MaxTimeMSExpired
        return own, Code.WriteConcernFailed


def _concern_error(
    code: int, name: str, message: str, concern: WriteConcern, *, wtimeout: bool = False
) -> dict[str, Any]:
    info: dict[str, Any] = {"wtimeout": True} if wtimeout else {}
    info["writeConcern"] = {**concern.document(), "provenance": "clientSupplied"}
    return {"code": int(code), "codeName": name, "errmsg": message, "errInfo": info}
