"""DDL over two shards and a config server in one process."""
