"""Columns and rows of the wide-column mode as bytes: their encoding, their mutations, the hash of the ring."""
