"""Events that are larger than a document may be, as fragments: whole fields in their order, each fragment with a token
of its own, behind which a stream can go on.

The token of a fragment is that of its event with the fragment's number, from 1, behind it.
"""

from __future__ import annotations

from docstore.aggregation.change_stream.key_string import END
from docstore.bson import document_from, elements, from_python
from docstore.bson.walk import OBJECT, STRING
from docstore.errors import CommandError

MOST_BYTES = 16 * 1024 * 1024
"""What a fragment may take."""
_NUMBER = 0x2B
"""What stands before a small number in a key string."""
_OBJECT = 0x46
_MOST_FRAGMENTS = 100
_BESIDE = 64
"""Bytes of `splitEvent`, and of what encloses a fragment, at most."""
_Field = tuple[str, int, bytes]


def fragments_of(event: bytes, token: bytes) -> list[tuple[bytes, bytes]]:
    """(fragment, its raw token) of an event, in order. Errors: 7182500 for a field that fits into none."""
    room = MOST_BYTES - _BESIDE - len(token) - 16
    groups: list[list[_Field]] = [[]]
    left = room
    for field in elements(event):
        if field[0] == "_id":
            continue
        size = len(field[0].encode()) + 2 + len(field[2])
        if size > room:
            raise CommandError(7182500, f"Splitting change event failed: the field '{field[0]}' is too large")
        if size > left:
            groups.append([])
            left = room
        groups[-1].append(field)
        left -= size
    if len(groups) > _MOST_FRAGMENTS:
        raise CommandError(7182500, f"Splitting change event failed: it would be {len(groups)} fragments")
    return [_fragment(token, number, len(groups), fields) for number, fields in enumerate(groups, 1)]


def _fragment(token: bytes, number: int, count: int, fields: list[_Field]) -> tuple[bytes, bytes]:
    place = document_from([("fragment", *from_python(number)), ("of", *from_python(count))])
    raw = _token(token, number)
    return document_from([("_id", OBJECT, raw), ("splitEvent", OBJECT, place), *fields]), raw


def _token(token: bytes, number: int) -> bytes:
    made: list[_Field] = []
    for name, code, data in elements(token):
        if name == "_data" and code == STRING:
            key = bytes.fromhex(data[4:-1].decode())
            made.append((name, *from_python((key[:-1] + bytes((_NUMBER, number << 1, END))).hex().upper())))
        else:
            made.append((name, code, data))
    return document_from(made)


def fragment_in(key: bytes, behind_uuid: int) -> int:
    """The number of the fragment whose token has this key; 0 for other tokens. `behind_uuid`: where the uuid ends."""
    identified = len(key) > behind_uuid + 4 and key[behind_uuid] == _OBJECT
    return key[-2] >> 1 if identified and key[-4] == 0 and key[-3] == _NUMBER and key[-1] == END else 0


def event_key(key: bytes, fragment: int) -> bytes:
    """The key of the event that a fragment is of; the key itself where it is that of none."""
    return key[:-3] + bytes((END,)) if fragment else key
