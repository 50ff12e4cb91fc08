"""The parts of a router that need no shard: merging, batches of writes, the log of hints, bootstrap."""
