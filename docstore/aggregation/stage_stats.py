"""Runtime statistics of the stages of a pipeline, for explain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from docstore.aggregation.stage import Environment, Run, Spill, Stage
from docstore.aggregation.streams import Stream


class CountedSpill:
    """The spill storage of one stage; counts the runs written."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self.runs = 0

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> Run:
        self.runs += 1
        return self._spill.write(records)


class MeasuredStream:
    """A stage over its source. `returned`: documents output, of `size` bytes. `seconds`: including the stages before
    it.
    """

    def __init__(self, stage: Stage, source: Stream, environment: Environment) -> None:
        self._clock: Callable[[], float] = environment.clock
        self._spill = None if environment.spill is None else CountedSpill(environment.spill)
        own = replace(environment, spill=self._spill)
        self._stream = stage.open(source, own)
        self.stage = stage
        self.returned = 0
        self.size = 0
        self.seconds = 0.0

    @property
    def spills(self) -> int:
        """The number of runs spilled to disk."""
        return 0 if self._spill is None else self._spill.runs

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        began = self._clock()
        documents, last = self._stream.next_batch(deadline)
        self.seconds += self._clock() - began
        self.returned += len(documents)
        self.size += sum(map(len, documents))
        return documents, last
