"""What replies of a real server and of ours to one request say of each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from docstore.errors import Code

TELLING = frozenset(
    (Code.NamespaceNotFound, Code.NamespaceExists, Code.IndexNotFound, Code.CursorNotFound, Code.InternalError, 11000)
)
"""Codes of refusals by which one learns what there is, or that come of carrying out."""
TWICE = frozenset((40413, 40431, 40433))
"""Codes that say that a field stands twice."""
_MARK = re.compile(rb"@\w+\.[\w.]+@")


def lets_in(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether ours has done, or told something of, what the real server refuses for want of privileges or because a
    field stands twice.
    """
    code = theirs.get("code", 0)
    if theirs["ok"] or (code != Code.Unauthorized and code not in TWICE):
        return False
    if ours["ok"]:
        return True
    return code == Code.Unauthorized and ours.get("code", 0) in TELLING


def is_stricter(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return bool(theirs["ok"]) and ours.get("code") == Code.Unauthorized


def breaks(ours: Mapping[str, Any]) -> bool:
    """Whether something in ours is an internal error."""
    failures = [ours, *ours.get("writeErrors", ()), ours.get("writeConcernError", {})]
    return any(failure.get("code") == Code.InternalError for failure in failures)


def shown(ours: bytes, theirs: bytes) -> set[bytes]:
    """The collections whose documents ours shows and the real server does not (`users.documents`)."""
    if b"@" not in ours:
        return set()
    return set(_MARK.findall(ours)) - set(_MARK.findall(theirs))
