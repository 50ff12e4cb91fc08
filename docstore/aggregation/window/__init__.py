"""`$setWindowFields`: partitions, windows, and window functions."""
