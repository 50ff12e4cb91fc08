"""Indexes: specifications, index keys by the kind of index, uniqueness, builds."""
