"""Chunk maintenance by routers: splits of growing chunks, balancing of shards, and the settings of both."""
