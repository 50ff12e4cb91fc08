"""What a node does beside its requests: expiry of documents, the profiler, periodic work, metrics."""
