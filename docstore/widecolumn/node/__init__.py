"""The wide-column mode on a node: its schema, reading and writing rows, and periodic work.

Every part works in slices: no row and no request holds the loop for long.
"""
