"""Index definitions of a dump, converted for their creation on a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_OPTIONS = frozenset((
    "2dsphereIndexVersion", "background", "bits", "bucketSize", "clustered", "coarsestIndexedLevel", "collation",
    "default_language", "expireAfterSeconds", "finestIndexedLevel", "hidden", "key", "language_override", "max", "min",
    "name", "partialFilterExpression", "prepareUnique", "sparse", "storageEngine", "textIndexVersion", "unique", "v",
    "weights", "wildcardProjection",
))  # fmt: skip
"""The index options of `createIndexes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexForm:
    """The conversion of indexes. `keeps_version`: keep the dumped index version instead of the server's. `converts`:
    options that only servers before 3.4 accepted are left out, or replaced by their meaning.
    """

    keeps_version: bool
    converts: bool

    def made_of(self, described: dict[str, Any]) -> dict[str, Any]:
        """Return the argument of `createIndexes`. In dumps of old servers each index names its collection (`ns`)."""
        index = {name: value for name, value in described.items() if name != "ns"}
        if not self.keeps_version:
            index.pop("v", None)
        if self.converts:
            index = {name: value for name, value in index.items() if name in _OPTIONS}
            index["key"] = {name: _direction(value) for name, value in described["key"].items()}
        return index


def _direction(value: Any) -> Any:
    """Return a direction or a kind of index; every other value has meant ascending."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        return value
    return 1
