"""`$percentile` and `$median` of a group, by a digest of its numbers that is exact up to some thousands of them."""

from __future__ import annotations

from docstore.aggregation.expressions.quantiles import QuantileParameters, number_of
from docstore.bson.walk import BINARY, Value
from docstore.query.value.quantiles import Digest
from docstore.query.value.values import int32_bytes


class QuantileState:
    """The state of one field of one group; ignores values that are no numbers."""

    __slots__ = ("_digest", "_parameters", "_size")

    def __init__(self, parameters: QuantileParameters) -> None:
        self._parameters = parameters
        self._digest = Digest()
        self._size = 0

    def add(self, value: Value | None) -> int:
        number = number_of(value)
        if number is not None:
            self._digest.add(number)
        return self._grown()

    def partial(self) -> Value:
        dumped = self._digest.dump()
        return BINARY, int32_bytes(len(dumped)) + b"\0" + dumped

    def merge(self, partial: Value) -> int:
        self._digest.load(partial[1][5:])
        return self._grown()

    def result(self) -> Value:
        return self._parameters.to_value(self._digest.quantiles(self._parameters.fractions))

    def _grown(self) -> int:
        before, self._size = self._size, self._digest.size
        return self._size - before
