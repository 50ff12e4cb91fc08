"""Accumulators of `$group` and of windows: states that add values and compute a result."""
