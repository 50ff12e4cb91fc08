"""Limits of column families and CQL."""

MAX_OPENING_CHARACTERS = 4096
"""The first words of a statement about roles stand among these first characters."""
MAX_DECIMAL_ZEROS = 10_000
"""A decimal that takes as many zeros or more is written with an exponent."""
MAX_SHORT_INTEGER_BYTES = 119
"""The key of a longer integer has its length in bytes of its own."""
MIN_COMPRESSED_BODY_BYTES = 1024
"""Smaller bodies are sent as they are: compression does not pay."""
MAX_ELEMENT_KEY_BYTES = 65_535
"""An element of a set, and a key of a map, that are not frozen: they stand in storage keys."""
MAX_KEPT_STATEMENTS = 10_000
"""The prepared statements that a process remembers."""
MAX_KEPT_CHARACTERS = 4096
"""The length of a text that is remembered: longer ones rarely repeat."""
MAX_LASTING_CHARACTERS = 64 * 1024
"""The length of a text that is remembered because its client prepared it."""
MAX_LASTING_TEXTS = 1000
"""The remembered texts of more than `MAX_KEPT_CHARACTERS`."""
MAX_COMBINATIONS = 65_536
"""The rows, or ranges of rows, that the IN restrictions of a statement name together."""
