"""The JavaScript that shell users see: `db`, collections, cursors, `rs`, `sh`; joined after docstore's own runtime."""

from __future__ import annotations

from functools import cache
from importlib import resources

FILES = (
    "host", "errors", "mongo", "cursor", "writes", "collection", "database", "replica_set", "sharding", "help", "shell",
)  # fmt: skip


@cache
def texts() -> tuple[str, ...]:
    """The files' texts in the order in which they are joined; the last one returns the entry points."""
    package = resources.files(__name__)
    return tuple((package / f"{name}.js").read_text(encoding="utf-8") for name in FILES)
