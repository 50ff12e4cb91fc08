"""Accumulators of `$group` and of windows: states that take in values and give one."""
