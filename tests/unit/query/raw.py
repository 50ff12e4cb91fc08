"""Between Python documents and raw ones, keeping the order of fields (the driver's encoder puts `_id` first)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson

from docstore.bson.build import document_from
from docstore.bson.walk import Value, get_field


def value(content: object) -> Value:
    found = get_field(bson.encode({"v": content}), "v")
    assert found is not None
    return found


def raw(document: Mapping[str, Any]) -> bytes:
    return value(dict(document))[1]


def decoded(document: bytes) -> dict[str, Any]:
    return dict(bson.decode(document))


def content(found: Value | None) -> Any:
    """The Python value of a raw one; `...` for a missing value."""
    if found is None:
        return ...
    return bson.decode(document_from([("v", *found)]))["v"]
