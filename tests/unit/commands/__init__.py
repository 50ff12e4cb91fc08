"""Declared commands, the fields of every request, dispatch and the registries, without a node."""
