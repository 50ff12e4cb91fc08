"""Unit tests of docstore.cql."""
