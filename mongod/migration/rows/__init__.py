"""Rows of column families in migrations: ranges of the ring, split points, families held for other shards."""
