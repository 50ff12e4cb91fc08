"""`$group` on raw bytes: where values come from, the states of accumulators, the groups."""
