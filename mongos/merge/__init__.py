"""Results of several shards put together: merged cursors, pipelines, map-reduce, explain, `$out` and `$merge`."""
