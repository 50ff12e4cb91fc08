"""Requests that this server decides otherwise than a real mongod, and why: what docs/permissions.md explains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

USER_FIRST = "malformed: here the user is checked first, there the fields that the command reads"
FIELDS_FIRST = "malformed: here a field is missed first, there the user is checked"
NOTHING_HERE = "does nothing here, and needs less or more than there"
_MALFORMED = {
    "cloneCollectionAsCapped": USER_FIRST,
    "distinct": FIELDS_FIRST,
    "dropDatabase": USER_FIRST,
    "findAndModify": USER_FIRST,
    "getClusterParameter": USER_FIRST,
    "mergeChunks": USER_FIRST,
}
"""Of commands that are sent by their name alone."""
_UNLIKE = {
    "getDiagnosticData": NOTHING_HERE,
    "setProfilingFilterGlobally": NOTHING_HERE,
}


def explanation(request: Mapping[str, Any]) -> str | None:
    """Return why a request is decided otherwise; None for one that is not to be."""
    name = next(iter(request))
    return _UNLIKE.get(name) or (_MALFORMED.get(name) if len(request) == 1 else None)


def explained() -> dict[str, list[str]]:
    """Return the commands that are decided otherwise in some form, by the reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in sorted((_MALFORMED | _UNLIKE).items()):
        reasons.setdefault(reason, []).append(name)
    return reasons
