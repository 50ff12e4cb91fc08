"""The output of a `$group`, and the spilling of its groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from docstore.aggregation.sorted_runs import RUN_BYTES
from docstore.aggregation.spilled_groups import RowsOf, SpilledGroups
from docstore.aggregation.stage import Environment, memory_exceeded
from docstore.aggregation.streams import CLOCK_EVERY, GIVEN_BYTES
from docstore.buffers import BUFFERS

STEP_BYTES = 64 * 1024
"""Bytes of results produced between two checks of the clock."""


class GroupResults:
    """The output of a `$group`: documents from groups in memory or, if they were spilled, from disk."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._buffers = environment.buffers
        self._counted = 0
        self._spilled: SpilledGroups | None = None
        self._ended = False
        self._output: Iterator[list[bytes]] | None = None

    @property
    def has_all(self) -> bool:
        """True if the last groups have been spilled too: none is left in memory."""
        return self._ended

    def is_too_much(self, bytes_in_memory: int) -> bool:
        """True if the groups in memory must be spilled. Errors: QueryExceededMemoryLimitNoDiskUseAllowed."""
        if self._spilled is not None:
            self._spilled.write()
        self._buffers.change(bytes_in_memory - self._counted)
        self._counted = bytes_in_memory
        crowded = self._buffers.crowded and bytes_in_memory > RUN_BYTES
        if bytes_in_memory <= self._environment.memory_limit and not crowded:
            return False
        if self._environment.spill is None:
            raise memory_exceeded("$group", min(self._environment.memory_limit, BUFFERS.limit))
        return True

    def give(self, keys: Iterable[bytes], rows_of: RowsOf) -> None:
        """Spill groups, which do not change any more."""
        if self._spilled is None:
            assert self._environment.spill is not None, "asked before groups are given away"
            self._spilled = SpilledGroups(self._environment.spill)
        self._buffers.change(-self._counted)
        self._counted = 0
        self._spilled.give(keys, rows_of)

    def finish(
        self,
        keys: Iterable[bytes],
        rows_of: RowsOf,
        documents: Callable[[], Iterator[list[bytes]]],
        merged: Callable[[list[bytes]], bytes],
        deadline: float,
    ) -> tuple[list[bytes], bool]:
        """Return output as `StageRun.finish`. The caller passes its groups in two forms: rows, as in `give`, and
        documents.
        """
        clock = self._environment.clock
        if self._output is None:
            if self._spilled is None and self._buffers.crowded and self._environment.spill is not None:
                self._ended = True
                self.give(keys, rows_of)
            if self._spilled is None:
                self._output = documents()
            else:
                if not self._ended:
                    self._ended = True
                    self.give(keys, rows_of)
                while self._spilled.write():
                    if clock() >= deadline:
                        return [], False
                self._output = ([merged(rows)] for rows in self._spilled.merged())
        batch: list[bytes] = []
        checked_count = size = total = 0
        for piece in self._output:
            batch += piece
            size += sum(map(len, piece))
            if len(batch) - checked_count >= CLOCK_EVERY or size > STEP_BYTES:
                total += size
                checked_count, size = len(batch), 0
                if total >= GIVEN_BYTES or clock() >= deadline:
                    return batch, False
        return batch, True
