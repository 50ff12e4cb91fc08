"""Tests of docstore.sharding."""
