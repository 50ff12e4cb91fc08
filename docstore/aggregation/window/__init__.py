"""`$setWindowFields`: partitions, windows, and the functions that are calculated over them."""
