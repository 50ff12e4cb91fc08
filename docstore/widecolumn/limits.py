"""Limits of column families and CQL."""

MAX_OPENING_CHARACTERS = 4096
"""The first words of a statement about roles stand among these first characters."""
MAX_DECIMAL_ZEROS = 10_000
"""A decimal that takes as many zeros or more is written with an exponent."""
MAX_SHORT_INTEGER_BYTES = 119
"""The key of a longer integer has its length in bytes of its own."""
MIN_COMPRESSED_BODY_BYTES = 1024
"""Smaller bodies are sent as they are: compression does not pay."""
