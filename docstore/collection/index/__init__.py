"""Indexes: specifications, the keys of a document by the kind of the index, unique keys, builds."""
