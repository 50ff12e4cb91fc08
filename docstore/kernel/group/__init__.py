"""`$group` on raw bytes: sources of values, the states of accumulators, the groups."""
