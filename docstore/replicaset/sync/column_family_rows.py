"""The rows of a column family as another member stores them, portion by portion.

Rows change while they are copied: what has changed since is in the oplog, and merging it again is harmless.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import bson

from docstore.replicaset.sync.remote import Remote
from docstore.widecolumn.model.executor import Stored
from docstore.widecolumn.model.record_pages import unpack_rows

_RECORDS = 2_000


async def family_rows(remote: Remote, namespace: str) -> AsyncIterator[list[tuple[bytes, list[Stored]]]]:
    """All rows with their records and statistics. Errors: NetworkError, CommandError."""
    database, _, name = namespace.partition(".")
    request: dict[str, Any] = {"_wcScan": name, "start": b"", "end": b"", "limit": _RECORDS, "statistics": True}
    while True:
        reply = bson.decode(await remote.command(database, request))
        yield unpack_rows(reply["rows"])
        if not reply["more"]:
            return
        request |= {"row": reply["row"], "path": reply["path"]}
