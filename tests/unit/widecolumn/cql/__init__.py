"""Unit tests of docstore.widecolumn.cql."""
