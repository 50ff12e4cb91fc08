"""Background work and statistics of a node: TTL expiration, profiler, periodic jobs, metrics."""
