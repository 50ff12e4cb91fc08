"""Chunk maps, targeting, policies and the cores of migrations, by examples and by random events."""
