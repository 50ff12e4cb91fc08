"""The library under Docstore's executables: a MongoDB-style sharded document store."""

from docstore.sources import prefer_sources_above_the_kernel

__version__ = "0.1.0"

prefer_sources_above_the_kernel(*__path__)
