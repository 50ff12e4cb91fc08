"""Commands of a data node that run users' JavaScript: map-reduce, `group`, `eval`."""
