"""Index keys of a document with one long array, computed in chunks so that other tasks may run in between.

Array members have separate keys, so the keys are the union of those of the document with each chunk of the array. This
does not hold if a path has an array position, or if several arrays are long.
"""

from __future__ import annotations

from itertools import islice

from docstore.bson.build import array_value, document_from
from docstore.bson.walk import ARRAY, each_value, elements
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.scan.covered import OPAQUE
from docstore.query.value.long_lists import sort_keys

_LONG_BYTES = 32 * 1024
_AT_ONCE = 1024


def keys_in_pieces(pattern: KeyPattern, raw: bytes) -> tuple[list[bytes], int, bytes]:
    """Return the keys as `KeyPattern.marked_keys`, yielding between chunks of a long array."""
    paths = [path.split(".") for path, _ in pattern.fields]
    names = {path[0] for path in paths}
    fields = [field for field in elements(raw) if field[0] in names]
    long = [at for at, (_, code, data) in enumerate(fields) if code == ARRAY and len(data) > _LONG_BYTES]
    if len(long) != 1 or len(fields) > len(names) or any(name.isdigit() for path in paths for name in path):
        return pattern.marked_keys(raw)
    name, _, data = fields[long[0]]
    distinct_keys: set[bytes] = set()
    array_bits, marks = 0, b""
    members = iter(each_value(data))
    while part := list(islice(members, _AT_ONCE)):
        fields[long[0]] = (name, *array_value(part))
        keys, arrays, marked = pattern.marked_keys(document_from(fields))
        distinct_keys.update(keys)
        array_bits |= arrays
        marks = OPAQUE if OPAQUE in (marked, marks) else marked
    ordered = list(distinct_keys)
    sort_keys(ordered)
    return ordered, array_bits, marks
