"""Filters, projections, sorts, updates and plans, against a real server and against naive models."""
