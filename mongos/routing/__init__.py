"""Routing of requests: the routing cache, the shards that a filter or document targets, and versioned requests."""
