"""Contents of a set's collections at a time, read from its servers, to compare a restored set with.

The documents are read by snapshot reads at that time, in the order of `_id`, and digested here as dbHash does.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from bson.timestamp import Timestamp

from docstore.backup.access import Client
from docstore.namespace import replicates
from docstore.tools.connection import RAW
from docstore.tools.read_concerns import at_time
from docstore.widecolumn.node.keyspaces import MARK

_LENGTH = struct.Struct("<i")


def recorded(client: Client, point: Timestamp) -> dict[str, tuple[int, str]]:
    """Return (number of documents, digest) of each replicated collection, except those of keyspaces.

    Errors: PyMongoError, if a server no longer has the history of that time.
    """
    digests = {}
    for database in sorted(client.list_database_names()):
        listing = list(client[database].list_collections())
        if any(listed["name"] == MARK for listed in listing):
            continue
        for listed in listing:
            namespace = f"{database}.{listed['name']}"
            if listed["type"] == "collection" and replicates(namespace):
                digests[namespace] = _look(client, database, listed["name"], point)
    return digests


def _look(client: Client, database: str, name: str, point: Timestamp) -> tuple[int, str]:
    collection: Any = client[database].get_collection(name, codec_options=RAW, read_concern=at_time(point))
    digest, count = hashlib.md5(usedforsecurity=False), 0
    with client.start_session(causal_consistency=False) as session:
        for batch in collection.find_raw_batches({}, sort=[("_id", 1)], hint="_id_", session=session):
            digest.update(batch)
            offset = 0
            while offset < len(batch):
                offset += _LENGTH.unpack_from(batch, offset)[0]
                count += 1
    return count, digest.hexdigest()
