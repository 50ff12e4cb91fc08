"""Pipelines on a node: execution, the collections that they read, and the targets of their results."""
