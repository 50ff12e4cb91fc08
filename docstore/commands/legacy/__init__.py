"""Clients of 2012: the old opcodes, OP_QUERY as find, getLastError."""
