"""Keyspaces and tables of CQL: definitions, their changes, descriptions, and where the cells of a table lie."""
