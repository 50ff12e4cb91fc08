"""A store in memory: units of work, indexes, the oplog and what undoes or repeats its entries."""
