"""Names of the aggregation language that MongoDB 6.0 knows and this server does not serve yet.

A name is in one of these tables or in a table of what is served, never in both.
"""

from __future__ import annotations

STAGES = frozenset(["$shardedDataDistribution"])
