"""The places of rows as documents: a column family is sharded by the field `token` of its rows.

A row's document is `{token: <place>}`. Under Murmur3 the place is the token as a 64-bit integer. Otherwise it is the
part of storage keys before the area, as hexadecimal text: it sorts like the rows, and a token of 128 bits fits. A row
has a single place, so no range of places divides it.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.bson import document_from, from_python
from docstore.errors import Code, CommandError
from docstore.kernel.columns.encoding import escape
from docstore.query.value.notation import display
from docstore.sharding.partitioners import MAX_TOKEN, MIN_TOKEN, MURMUR3, RANDOM, RANDOM_TOKENS, Partitioner

SHARD_KEY_FIELD = "token"
SHARD_KEY = {SHARD_KEY_FIELD: 1}


def place_of(partitioner: Partitioner, key: bytes) -> Any:
    """The place of a partition key."""
    token = partitioner.token(key)
    if partitioner.name == MURMUR3:
        assert token is not None, "the partitioner has tokens"
        return Int64(token)
    return (partitioner.token_bytes(key) or escape(key)).hex()


def place_of_row_key(partitioner: Partitioner, row_key: bytes) -> Any:
    """The place of a row key, which begins with the token where there are tokens."""
    if partitioner.name == MURMUR3:
        return Int64(partitioner.token_of(row_key))
    return (row_key[: partitioner.width] or row_key).hex()


def place_document(token: Any) -> bytes:
    return document_from([(SHARD_KEY_FIELD, *from_python(token))])


def ring_document(partitioner: Partitioner, key: bytes) -> bytes:
    """The document of a partition key."""
    return place_document(place_of(partitioner, key))


def row_key_of_place(partitioner: Partitioner, token: Any) -> bytes:
    """Return the prefix of the first row keys at that place."""
    return partitioner.bytes_of(int(token)) if partitioner.name == MURMUR3 else bytes.fromhex(str(token))


def checked_place(partitioner: Partitioner, value: Any) -> Any:
    """Return a client's place in canonical form. BadValue for malformed ones."""
    if partitioner.name == MURMUR3:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value // 1:
            raise _no_place(partitioner, value)
        token = int(value)
        if not MIN_TOKEN <= token <= MAX_TOKEN:
            raise _no_place(partitioner, value)
        return Int64(token)
    try:
        data = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        data = b""
    has_valid_length = len(data) == partitioner.width if partitioner.name == RANDOM else bool(data)
    # Keys longer than the prefix would fall between the records of that row.
    if not has_valid_length or value != data.hex() or (not partitioner.width and escape(b"") in data[:-1]):
        raise _no_place(partitioner, value)
    return value


def _no_place(partitioner: Partitioner, value: Any) -> CommandError:
    expected_form = "a whole number of 64 bits" if partitioner.name == MURMUR3 else "hexadecimal text in lower case"
    name = partitioner.name.rpartition(".")[2]
    # An integer may be larger than any of BSON.
    value_text = str(value) if type(value) is int else display(from_python(value))
    return CommandError(Code.BadValue, f"{value_text} is no place on the ring of {name}: it takes {expected_form}")


def even_places(partitioner: Partitioner, parts: int) -> list[Any]:
    """Return the places that divide the ring into `parts` equal parts; none if rows lie in the order of their keys."""
    if partitioner.name == MURMUR3:
        return [Int64(MIN_TOKEN + number * (1 << 64) // parts) for number in range(1, parts)]
    if partitioner.name == RANDOM:
        return [partitioner.bytes_of(number * RANDOM_TOKENS // parts).hex() for number in range(1, parts)]
    return []
