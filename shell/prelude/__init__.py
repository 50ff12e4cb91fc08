"""The JavaScript that shell users see: `db`, collections, cursors, `rs`, `sh`; joined after docstore's own runtime."""

from __future__ import annotations

from functools import cache
from importlib import resources

FILES = (
    "host", "errors", "results", "progress", "help", "mongo", "session", "cursor", "writes", "bulk", "collection",
    "explain", "database", "users", "show", "cql", "replica_set", "sharding", "sharding_status", "assertions", "extras",
    "wide_column", "load", "completion", "shell",
)  # fmt: skip
"""The files, in the order of joining.

A part with helpers of its own comes before `shell`. It adds methods with `hide(DB.prototype, {...})`, global names
with `hide(globalThis, {...})`, help with `addHelp`, words after `show` in `SHOW`.
"""


@cache
def texts() -> tuple[str, ...]:
    """The files' texts in the order in which they are joined; the last one returns the entry points."""
    package = resources.files(__name__)
    return tuple((package / f"{name}.js").read_text(encoding="utf-8") for name in FILES)
