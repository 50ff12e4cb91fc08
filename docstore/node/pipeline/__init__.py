"""Pipelines on a node: running them, the collections that they read, and where their results go."""
