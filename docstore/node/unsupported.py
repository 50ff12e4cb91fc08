"""Commands that MongoDB 6.0 has and a data node of this server has not, each with the sentence that refuses it.

Kept apart from what is served: "not supported" and "no such command" are different replies.
"""

from __future__ import annotations

_USERS = "there is no authentication yet"

UNSUPPORTED = {
    "authenticate": _USERS,
    "createRole": _USERS,
    "dropRole": _USERS,
    "planCacheSetFilter": "there is no plan cache",
}
