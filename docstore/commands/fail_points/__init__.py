"""Fail points: their registry, and the failures they cause in requests."""
