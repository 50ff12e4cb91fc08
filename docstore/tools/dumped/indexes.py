"""Indexes of a dump as they are created anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_OPTIONS = frozenset((
    "2dsphereIndexVersion", "background", "bits", "bucketSize", "clustered", "coarsestIndexedLevel", "collation",
    "default_language", "expireAfterSeconds", "finestIndexedLevel", "hidden", "key", "language_override", "max", "min",
    "name", "partialFilterExpression", "prepareUnique", "sparse", "storageEngine", "textIndexVersion", "unique", "v",
    "weights", "wildcardProjection",
))  # fmt: skip
"""What `createIndexes` takes for an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexForm:
    """What becomes of indexes. `keeps_version`: they get the version that they had, not that of the server. `converts`:
    what servers before 3.4 took and no server takes any more is left out, or is what it meant.
    """

    keeps_version: bool
    converts: bool

    def made_of(self, described: dict[str, Any]) -> dict[str, Any]:
        """What `createIndexes` takes. Dumps of old servers say in each index of which collection it is."""
        index = {name: value for name, value in described.items() if name != "ns"}
        if not self.keeps_version:
            index.pop("v", None)
        if self.converts:
            index = {name: value for name, value in index.items() if name in _OPTIONS}
            index["key"] = {name: _direction(value) for name, value in described["key"].items()}
        return index


def _direction(value: Any) -> Any:
    """A direction or a kind of index: anything else has meant ascending."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        return value
    return 1
