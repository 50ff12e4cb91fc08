"""The outcome of a connection's last OP_INSERT, OP_UPDATE or OP_DELETE, for getLastError."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)


@dataclass(frozen=True, slots=True)
class LastWrite:
    """`namespace`: empty before the first write. `fields`: reply fields of getLastError, without those of a wait."""

    namespace: str = ""
    fields: dict[str, Any] = field(default_factory=lambda: {"n": 0, "err": None})


NOTHING_WRITTEN = LastWrite()


def outcome_of(namespace: str, kind: str, reply: bytes) -> LastWrite:
    """Return getLastError's outcome for a write command's reply. `kind`: "insert", "update" or "delete"."""
    body = bson.decode(reply, _CODEC)
    error = body if body.get("ok") != 1 else next(iter(body.get("writeErrors", ())), None)
    fields: dict[str, Any] = {}
    upserted = body.get("upserted") or ()
    if kind == "update" and error is None:
        fields["updatedExisting"] = bool(body["n"]) and not upserted
        if upserted:
            fields["upserted"] = upserted[0]["_id"]
    # Old servers always reported 0 for an insert.
    fields["n"] = 0 if kind == "insert" else body.get("n", 0)
    fields["err"] = None
    if error is not None:
        fields["err"] = error["errmsg"]
        fields["code"] = error["code"]
        if "codeName" in error:
            fields["codeName"] = error["codeName"]
    return LastWrite(namespace, fields)
