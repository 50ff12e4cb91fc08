"""The aggregation language: expressions, accumulators, stages, and the split of a pipeline across shards."""
