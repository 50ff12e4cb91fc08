"""Columns, rows and CQL on a data node in memory, and the collection of tombstones."""
