"""OP_QUERY as a find command: its flags, its counts, and the modifiers wrapped around a query.

{$query: {...}, $orderby: {...}, $hint: ..., $explain: true, ...}     also spelled query, orderby
"""

from __future__ import annotations

import bson

from docstore.bson import append_fields, document_from, elements, get_field
from docstore.bson.walk import INT32, OBJECT, Value
from docstore.commands.values import NUMBERS, integer_of, truth_of
from docstore.errors import Code, CommandError
from docstore.wire.query import Operation

TAILABLE = 1 << 1
SECONDARY_OK = 1 << 2
NO_TIMEOUT = 1 << 4
AWAIT_DATA = 1 << 5
EXHAUST = 1 << 6
PARTIAL = 1 << 7
READ_SECONDARIES = bson.encode({"$readPreference": {"mode": "secondaryPreferred"}})[4:-1]

_FLAGS = ((TAILABLE, "tailable"), (NO_TIMEOUT, "noCursorTimeout"), (AWAIT_DATA, "awaitData"),
          (PARTIAL, "allowPartialResults"))  # fmt: skip
_MODIFIERS = {
    "$orderby": "sort", "orderby": "sort", "$hint": "hint", "hint": "hint", "$min": "min", "$max": "max",
    "$returnKey": "returnKey", "$showDiskLoc": "showRecordId", "$comment": "comment", "$maxTimeMS": "maxTimeMS",
    "$readPreference": "$readPreference",
}  # fmt: skip
_TRUE = b"\1"
_BOOL = 8


def find_command(operation: Operation, collection: str) -> tuple[bytes, bool]:
    """Return (the find command, or an explain command around it; True if it is an explain).

    Errors: BadValue for unknown modifiers, FailedToParse for an exhaust query.
    """
    if operation.flags & EXHAUST:
        raise CommandError(Code.FailedToParse, "exhaust is for OP_MSG: leave its flag out of an OP_QUERY")
    query, fields, explained = _unwrap(operation.documents[0])
    command: list[tuple[str, int, bytes]] = [("find", 2, _text(collection)), ("filter", OBJECT, query)]
    if len(operation.documents) == 2:
        command.append(("projection", OBJECT, operation.documents[1]))
    command += [(name, *value) for name, value in fields.items()]
    if operation.skip:
        command.append(("skip", INT32, operation.skip.to_bytes(4, "little", signed=True)))
    count = operation.number
    if count < 0 or count == 1:
        command += [("limit", INT32, abs(count).to_bytes(4, "little")), ("singleBatch", _BOOL, _TRUE)]
    elif count:
        command.append(("batchSize", INT32, count.to_bytes(4, "little")))
    command += [(name, _BOOL, _TRUE) for bit, name in _FLAGS if operation.flags & bit]
    body = document_from(command)
    if not explained:
        return body, False
    preference = fields.pop("$readPreference", None)
    inner = document_from(field for field in command if field[0] != "$readPreference")
    explain = document_from((("explain", OBJECT, inner), ("verbosity", 2, _text("allPlansExecution"))))
    if preference is not None:
        explain = append_fields(explain, document_from((("$readPreference", *preference),))[4:-1])
    return explain, True


def _unwrap(document: bytes) -> tuple[bytes, dict[str, Value], bool]:
    """Return (the query, command fields from its modifiers, True to explain it)."""
    wrapped = get_field(document, "$query")
    if wrapped is None and get_field(document, "orderby") is not None:
        wrapped = get_field(document, "query")
    if wrapped is None or wrapped[0] != OBJECT:
        return document, {}, False
    fields: dict[str, Value] = {}
    explained = False
    for name, code, data in elements(document):
        if name in _MODIFIERS:
            fields[_MODIFIERS[name]] = (code, data)
        elif name == "$explain":
            explained = code in (_BOOL, *NUMBERS) and truth_of(code, data)
        elif name == "$maxScan" and code in NUMBERS and integer_of(code, data) == 0:
            continue
        elif name not in ("$query", "query", "$snapshot"):
            # A cursor reads one state of the data, so $snapshot is implied.
            raise CommandError(Code.BadValue, f"the query modifier {name} is not supported")
    natural = get_field(fields["sort"][1], "$natural") if "sort" in fields and fields["sort"][0] == OBJECT else None
    if natural is not None and "hint" not in fields:
        fields["hint"] = fields.pop("sort")
    return wrapped[1], fields, explained


def _text(text: str) -> bytes:
    encoded = text.encode() + b"\0"
    return len(encoded).to_bytes(4, "little") + encoded
