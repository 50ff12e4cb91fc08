"""Fragments of large change events: whole fields in their order, each fragment with its own resume token.

A fragment's token is that of its event followed by the fragment's number, from 1.
"""

from __future__ import annotations

from docstore.aggregation.change_stream.key_string import END
from docstore.aggregation.limits import MAX_EVENT_FRAGMENTS
from docstore.bson import document_from, elements, from_python
from docstore.bson.walk import OBJECT, STRING
from docstore.errors import CommandError

MOST_BYTES = 16 * 1024 * 1024
"""Maximum bytes of a fragment."""
_NUMBER = 0x2B
"""The type byte of a small number in a key string."""
_OBJECT = 0x46
_BESIDE = 64
"""Maximum bytes of `splitEvent` and the envelope of a fragment."""
_Field = tuple[str, int, bytes]


def fragments_of(event: bytes, token: bytes) -> list[tuple[bytes, bytes]]:
    """Return (fragment, its raw token) of an event, in order. Errors: 7182500 for a field too large for a fragment."""
    room = MOST_BYTES - _BESIDE - len(token) - 16
    groups: list[list[_Field]] = [[]]
    remaining_bytes = room
    for field in elements(event):
        if field[0] == "_id":
            continue
        size = len(field[0].encode()) + 2 + len(field[2])
        if size > room:
            raise CommandError(7182500, f"Splitting change event failed: the field '{field[0]}' is too large")
        if size > remaining_bytes:
            groups.append([])
            remaining_bytes = room
        groups[-1].append(field)
        remaining_bytes -= size
    if len(groups) > MAX_EVENT_FRAGMENTS:
        raise CommandError(7182500, f"Splitting change event failed: it would be {len(groups)} fragments")
    return [_fragment(token, number, len(groups), fields) for number, fields in enumerate(groups, 1)]


def _fragment(token: bytes, number: int, count: int, fields: list[_Field]) -> tuple[bytes, bytes]:
    split_event = document_from([("fragment", *from_python(number)), ("of", *from_python(count))])
    raw = _token(token, number)
    return document_from([("_id", OBJECT, raw), ("splitEvent", OBJECT, split_event), *fields]), raw


def _token(token: bytes, number: int) -> bytes:
    fields: list[_Field] = []
    for name, code, data in elements(token):
        if name == "_data" and code == STRING:
            key = bytes.fromhex(data[4:-1].decode())
            fields.append((name, *from_python((key[:-1] + bytes((_NUMBER, number << 1, END))).hex().upper())))
        else:
            fields.append((name, code, data))
    return document_from(fields)


def fragment_in(key: bytes, behind_uuid: int) -> int:
    """Return the fragment number of a token's key; 0 for other tokens. `behind_uuid`: the offset after the UUID."""
    identified = len(key) > behind_uuid + 4 and key[behind_uuid] == _OBJECT
    return key[-2] >> 1 if identified and key[-4] == 0 and key[-3] == _NUMBER and key[-1] == END else 0


def event_key(key: bytes, fragment: int) -> bytes:
    """Return the key of a fragment's event; the key itself if it is no fragment's."""
    return key[:-3] + bytes((END,)) if fragment else key
