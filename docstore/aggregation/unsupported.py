"""Names of the aggregation language that MongoDB knows and this server does not serve.

A name is in one of these tables or in a table of what is served, never in both.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError
from docstore.query.unsupported import not_supported

STAGES = frozenset(["$listSearchIndexes", "$shardedDataDistribution"])

SEARCH_REASON = "search indexes are served with Atlas only"


def refused(stage: str) -> CommandError:
    """The refusal of one of these stages."""
    if stage == "$listSearchIndexes":
        return CommandError(Code.CommandNotSupported, SEARCH_REASON)
    return not_supported("aggregation stage", stage)
