"""Statements carried out: prepared once, bound, executed; rows assembled and paged."""
