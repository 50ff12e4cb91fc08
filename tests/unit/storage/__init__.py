"""The engines by themselves: disk space, settings of RocksDB, what is saved of damaged files."""
