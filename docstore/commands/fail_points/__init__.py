"""Fail points: their registry, and the failures that they induce in requests."""
