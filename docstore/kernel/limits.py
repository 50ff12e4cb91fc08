"""Limits of the kernel, by room. Those annotated here are variables of C in the modules whose loops compare with them.

Beyond a limit of `compute` or `match`, the kernel leaves the value to the general code, which charges for memory and
yields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython

# Steps: work that is done without yielding.
MAX_STEP_BYTES: cython.Py_ssize_t = 1 << 20
"""Documents that a step reads."""
MAX_REACHED_DOCUMENTS: cython.Py_ssize_t = 256
"""Documents of a graph that a step reaches."""
MAX_RUN_BYTES: cython.Py_ssize_t = 256 * 1024
"""Oplog entries that are applied together."""

# Metering (`docstore.bson.allowance`).
WALKED_SHIFT: cython.int = 3
"""Bytes that are only walked cost an eighth of those that are made."""

# keys
MAX_BUFFER_BYTES = 100 * 1024 * 1024
"""More than the size of any stored document or key."""
MAX_SPARE_BUFFER_BYTES: cython.Py_ssize_t = 4096
"""Longer buffers are freed instead of reused."""
MAX_INSERTION_SORT_ENTRIES: cython.Py_ssize_t = 12
"""Longer runs of entries are sorted by merging."""
MAX_PATH_NAMES: cython.Py_ssize_t = 24

# match
MAX_FILTER_BYTES: cython.Py_ssize_t = 32 * 1024
MAX_FORM_BYTES: cython.Py_ssize_t = 1024
"""Longer forms hold data, which rarely recurs."""
MAX_FORM_VALUES: cython.Py_ssize_t = 16
MAX_LIST_MEMBERS: cython.int = 1_000
"""Members of an `$in`: the number of ranges that a step reads."""

# scan
MIN_MERGED_PAIRS: cython.Py_ssize_t = 24
"""The interpreter sorts fewer pairs faster than the merge sort."""
MAX_SKIPPED_ENTRIES: cython.int = 255
"""Entries that fail in a row before an iterator yields one regardless, for its caller to check the time."""
MIN_CACHED_VALUES: cython.Py_ssize_t = 64
"""Values for which a cache has room. Longer ones are not cached: each would evict many."""

# group
MAX_PROBED_SLOTS = 16
MAX_TABLE_SLOTS = 1 << 16
"""Rehashing a larger table, and its traversal by the garbage collector, take too long."""

# compute
MAX_COMPARED_NAMES = 16
"""A field's name is compared with each; more are looked up by hash."""
MAX_TRACKED_NAMES = 60
"""Fields of a projection that are tracked in a 64-bit mask."""
MAX_UPDATED_FIELDS: cython.Py_ssize_t = 60
MAX_ELEMENT_CONDITIONS: cython.Py_ssize_t = 8
"""Equalities of an element, and arrays with conditions."""
MAX_COMPARED_VALUES: cython.Py_ssize_t = 8
"""Values of an `$addToSet`, each of which is compared with all elements."""
MAX_SAFE_SUMMAND: cython.longlong = (1 << 62) - 1
MAX_SAFE_FACTOR: cython.longlong = (1 << 31) - 1
"""The sum, or the product, of two integers up to this absolute value does not overflow 64 bits."""
MAX_ARRAY_BYTES = 1024 * 1024
"""Arrays that an operator reads or writes."""
MAX_SORTED_ARRAY_BYTES = 64 * 1024
"""Arrays that are sorted or made a set: their keys take much more memory."""
MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_RESULT_BYTES = 16 * 1024 * 1024
"""Concatenated texts, and arrays of `$map`."""
MAX_TYPE_BITS = 56
"""Of a resume token: room for one more value in 64 bits."""
MAX_UNIT_MONTHS = 1 << 24
MAX_UNIT_MILLISECONDS = 1 << 60
"""Lengths of a bin of dates."""
MAX_CACHED_BINS = 10_000
"""Beginnings of bins in time zones, before the cache is cleared."""

# columns
MAX_COLUMN_KEY_BYTES: cython.Py_ssize_t = 65_535
"""Row keys and column names: their length takes two bytes."""
