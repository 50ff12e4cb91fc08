"""Stages and operators of MongoDB that this server does not support.

A name is either in one of these tables or in a table of supported ones, never in both.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError
from docstore.query.unsupported import not_supported

STAGES = frozenset(["$listSearchIndexes", "$shardedDataDistribution"])

SEARCH_REASON = "search indexes are served with Atlas only"


def refused(stage: str) -> CommandError:
    """Return the error for one of these stages."""
    if stage == "$listSearchIndexes":
        return CommandError(Code.CommandNotSupported, SEARCH_REASON)
    return not_supported("aggregation stage", stage)
