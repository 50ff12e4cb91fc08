"""Expressions: one module per operator family, each with its table of operators; `table` joins them."""
