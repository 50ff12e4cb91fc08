"""Operations in progress, for currentOp and killOp.

A request that is answered at once never gets here: on one event loop nobody could see or end it. One that waits is
registered when it first waits, and leaves when it is answered.

Always true: ids rise and are never given twice; a killed operation stays registered until its command has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from docstore.errors import Code, CommandError

if TYPE_CHECKING:
    from docstore.commands.context import Context


class Operation:
    """One request in progress.

    A command that works in steps calls `check()` between them. One that waits is woken by the transport, which set
    `on_kill`. `progress` is free for the command: its fields are shown by currentOp. `context` is there while the
    operation is registered.
    """

    __slots__ = ("context", "error", "id", "on_kill", "progress", "started")

    def __init__(self, operation_id: int, context: Context, started: float) -> None:
        self.id = operation_id
        self.context = context
        self.started = started
        self.error: CommandError | None = None
        self.on_kill: Callable[[], object] | None = None
        self.progress: dict[str, Any] = {}

    @property
    def killed(self) -> bool:
        return self.error is not None

    def kill(self, error: CommandError | None = None) -> None:
        """End the operation with `error` (Interrupted when none is given). The first call counts."""
        if self.error is None:
            self.error = error or CommandError(Code.Interrupted, "operation was interrupted")
            if self.on_kill is not None:
                self.on_kill()

    def check(self) -> None:
        """Raise the error that the operation was killed with."""
        if self.error is not None:
            raise self.error


class OperationRegistry:
    """All operations in progress, by id."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._operations: dict[int, Operation] = {}
        self._last_id = 0

    def start(self, context: Context) -> Operation:
        """Register the request that `context` stands for."""
        self._last_id += 1
        operation = Operation(self._last_id, context, self._clock())
        self._operations[operation.id] = operation
        return operation

    def finish(self, operation: Operation) -> None:
        """Forget an operation that was answered."""
        if self._operations.pop(operation.id, None) is not None:
            # It and its context name each other. As a cycle they would keep the request's documents until garbage is
            # collected, which a few objects a request hardly ever bring about, however many megabytes they hold.
            del operation.context

    def kill(self, operation_id: int) -> bool:
        """Kill by id; False when there is none such (killOp says ok all the same)."""
        operation = self._operations.get(operation_id)
        if operation is None:
            return False
        operation.kill()
        return True

    def kill_where(self, chosen: Callable[[Operation], bool], error: CommandError | None = None) -> int:
        """Kill all that `chosen` picks; returns how many."""
        victims = [operation for operation in self._operations.values() if chosen(operation)]
        for operation in victims:
            operation.kill(error)
        return len(victims)

    def __iter__(self) -> Iterator[Operation]:
        """In order of their start."""
        return iter(list(self._operations.values()))

    def __len__(self) -> int:
        return len(self._operations)
