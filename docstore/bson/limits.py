"""Limits of BSON values and of building them."""

LONG_MIN = -(1 << 63)
LONG_MAX = (1 << 63) - 1
"""The range of 64-bit integers."""
MAX_COEFFICIENT = 10**34 - 1
"""Of a decimal128."""
MAX_BUILT_DOCUMENT_BYTES = 64 * 1024 * 1024
MAX_BUILT_ARRAY_BYTES = 100 * 1024 * 1024
"""Documents and arrays during a computation; stored ones are much smaller."""
MAX_CACHED_MEMBER_NAMES = 65_536
"""Encoded names of array members, which are never freed."""
