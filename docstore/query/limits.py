"""Limits of filters, plans and updates."""

MAX_SEPARATE_PATTERNS = 4
"""More are matched together."""
MAX_SEPARATE_POINTS = 16
MAX_CACHED_VALUE_BYTES = 1024
"""A value that a cached plan may hold."""
MAX_CACHED_CONDITIONS = 32
MAX_CACHED_LIST_VALUES = 1_000
MAX_CONSTANT_LIST_VALUES = 8
"""Longer lists rarely recur unchanged."""
MAX_PREPARED_ARGUMENT_BYTES = 1024
"""Parsing a longer argument takes a while."""
MAX_CACHED_POSITIONS = 8
"""Array positions for which an update caches its tree."""
MAX_LAST_FIELD_RANGES = 2
"""Of an index's last field in a prepared scan: strings, and regular expressions."""
MAX_PATTERN_BYTES = 32_763
"""Of a regular expression, as in the reference; PCRE2 itself takes one byte more."""
