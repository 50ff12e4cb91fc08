"""The wide-column mode on a router: rows are found by their tokens, and answers of several shards become one."""
