"""The library under Docstore's executables: a MongoDB-style sharded document store."""

__version__ = "0.1.0"
