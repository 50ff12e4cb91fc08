"""What a data node does with users' JavaScript besides queries: map-reduce, `group`, `eval`."""
