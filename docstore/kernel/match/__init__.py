"""Compiled predicates over raw documents."""
