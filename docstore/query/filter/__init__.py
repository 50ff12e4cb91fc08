"""Filters: parsed to typed trees, compiled to kernel predicates."""
