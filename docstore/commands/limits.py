"""The version that clients are told of, and the limits that hold in every process."""

from __future__ import annotations

COMPATIBLE_VERSION = "6.0.5"
"""The MongoDB version whose behaviour clients may expect."""
FEATURE_VERSION = "6.0"
MIN_WIRE_VERSION = 0
MAX_WIRE_VERSION = 17
MAX_WRITE_BATCH = 100_000
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_INTERNAL_BYTES = MAX_DOCUMENT_BYTES + 16 * 1024
"""Bytes of a document that is no stored one: a command, or a result."""
MAX_REQUEST_DEPTH = 200
"""Levels of documents and arrays in a request; deeper ones are refused before anything walks them."""
