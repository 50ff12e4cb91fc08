"""Operations in progress, for currentOp and killOp.

- A request that is answered at once is never registered: on one event loop nobody could see or kill it. One that waits
  is registered when it first waits, and removed when it is answered.
- Ids increase and are never reused.
- A killed operation stays registered until its command has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from docstore.errors import Code, CommandError

if TYPE_CHECKING:
    from docstore.commands.context import Context


class Operation:
    """One request in progress.

    A command that works in steps calls `check()` between them. A waiting command is woken by the transport through
    `on_kill`. `progress`: fields of the command, shown by currentOp. `context`: present while the operation is
    registered.
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
        """Kill the operation with `error` (default: Interrupted). The first call counts."""
        if self.error is None:
            self.error = error or CommandError(Code.Interrupted, "operation was interrupted")
            if self.on_kill is not None:
                self.on_kill()

    def check(self) -> None:
        """Raise the error with which the operation was killed."""
        if self.error is not None:
            raise self.error


class OperationRegistry:
    """All operations in progress, by id."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._operations: dict[int, Operation] = {}
        self._last_id = 0

    def start(self, context: Context) -> Operation:
        """Register the request of `context`."""
        self._last_id += 1
        operation = Operation(self._last_id, context, self._clock())
        self._operations[operation.id] = operation
        return operation

    def finish(self, operation: Operation) -> None:
        """Remove an answered operation."""
        if self._operations.pop(operation.id, None) is not None:
            # Break the reference cycle of the operation and its context. It would keep the request's documents, which
            # may be megabytes, until a garbage collection, which a few objects per request rarely trigger.
            del operation.context

    def kill(self, operation_id: int) -> bool:
        """Kill by id; False if there is no such operation (killOp replies ok all the same)."""
        operation = self._operations.get(operation_id)
        if operation is None:
            return False
        operation.kill()
        return True

    def kill_where(self, chosen: Callable[[Operation], bool], error: CommandError | None = None) -> int:
        """Kill all operations that satisfy `chosen`; return their number."""
        victims = [operation for operation in self._operations.values() if chosen(operation)]
        for operation in victims:
            operation.kill(error)
        return len(victims)

    def __iter__(self) -> Iterator[Operation]:
        """Iterate in order of their start."""
        return iter(list(self._operations.values()))

    def __len__(self) -> int:
        return len(self._operations)
