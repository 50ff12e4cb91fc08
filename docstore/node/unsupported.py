"""Commands that MongoDB 6.0 has and a data node of this server has not, each with the sentence that refuses it.

Kept apart from what is served: "not supported" and "no such command" are different replies.
"""

from __future__ import annotations

_USERS = "there is no authentication yet"
_TRANSACTIONS = "multi-document transactions are not supported"

UNSUPPORTED = {
    "abortTransaction": _TRANSACTIONS,
    "commitTransaction": _TRANSACTIONS,
    "authenticate": _USERS,
    "saslStart": _USERS,
    "saslContinue": _USERS,
    "logout": _USERS,
    "createUser": _USERS,
    "dropUser": _USERS,
    "updateUser": _USERS,
    "usersInfo": _USERS,
    "createRole": _USERS,
    "dropRole": _USERS,
    "rolesInfo": _USERS,
    "grantRolesToUser": _USERS,
    "collMod": "collections cannot be changed after they were made",
    "compact": "collections are compacted in the background",
    "convertToCapped": "capped collections are not supported",
    "cloneCollectionAsCapped": "capped collections are not supported",
    "fsyncUnlock": "fsync cannot lock the server",
    "getLastError": "a write is acknowledged in its own reply; give it a writeConcern",
    "killAllSessionsByPattern": "there are no users to choose sessions by",
    "planCacheClear": "there is no plan cache",
    "planCacheClearFilters": "there is no plan cache",
    "planCacheListFilters": "there is no plan cache",
    "planCacheSetFilter": "there is no plan cache",
    "profile": "the profiler is not supported",
    "reIndex": "indexes are always consistent with their collection",
    "setFeatureCompatibilityVersion": "there is one feature version",
    "setIndexCommitQuorum": "index builds have no quorum",
    "top": "times per collection are not kept",
}
