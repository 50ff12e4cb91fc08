"""The sources of the metrics: replies of commands, run as the requesting user."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from docstore.bson import document_to_python
from docstore.console.commands import Call
from docstore.console.limits import MAX_METRIC_ROWS
from docstore.errors import Code

Document = dict[str, Any]


class NotAllowed(Exception):
    """The user has no privilege to see the process's figures."""


@dataclass(slots=True)
class Figures:
    """`status` is always present, `replication` on a member of a set, the others on routers. `failed`: names of
    commands that had no answer.
    """

    status: Document
    replication: Document | None = None
    chunks: list[Document] = field(default_factory=list)
    shards: list[Document] = field(default_factory=list)
    balancer: Document | None = None
    members: Document | None = None
    moves: list[Document] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def is_router(self) -> bool:
        return bool(self.status.get("process") == "mongos")


async def gather(call: Call) -> Figures:
    """Errors: NotAllowed."""
    status = await _ask(call, "admin", {"serverStatus": 1, "oplog": 1})
    if status.get("ok") != 1:
        raise NotAllowed(status.get("errmsg", ""))
    figures = Figures(status)
    if figures.is_router:
        await _gather_cluster(call, figures)
    elif "repl" in status:
        figures.replication = await _ask_or_record(call, figures, {"replSetGetStatus": 1})
    return figures


async def _gather_cluster(call: Call, figures: Figures) -> None:
    figures.balancer = await _ask_or_record(call, figures, {"balancerStatus": 1})
    figures.members = await _ask_or_record(call, figures, {"connPoolStats": 1})
    listed = await _ask_or_record(call, figures, {"listShards": 1})
    figures.shards = [] if listed is None else listed["shards"]
    count = {"$group": {"_id": {"ns": "$ns", "shard": "$shard"}, "chunks": {"$sum": 1}}}
    figures.chunks = await _rows(call, figures, "config", {"aggregate": "chunks", "pipeline": [count]})
    running: list[Document] = [
        {"$currentOp": {"allUsers": True}},
        {"$match": {"command._shardsvrMoveRange": {"$exists": True}}},
        {"$project": {"shard": 1, "ns": "$command._shardsvrMoveRange", "to": "$command.toShard"}},
    ]
    figures.moves = await _rows(call, figures, "admin", {"aggregate": 1, "pipeline": running})


async def _rows(call: Call, figures: Figures, db: str, command: Document) -> list[Document]:
    reply = await _ask_or_record(call, figures, {**command, "cursor": {"batchSize": MAX_METRIC_ROWS}}, db)
    if reply is None:
        return []
    cursor = reply["cursor"]
    if cursor["id"]:
        # The reply is truncated: more entries than any dashboard shows. Incomplete figures are not reported.
        await _ask(call, db, {"killCursors": cursor["ns"].partition(".")[2], "cursors": [cursor["id"]]})
        figures.failed.append(next(iter(command)))
        return []
    rows: list[Document] = cursor["firstBatch"]
    return rows


async def _ask_or_record(call: Call, figures: Figures, command: Document, db: str = "admin") -> Document | None:
    """Return the reply; None if there is none, which is recorded."""
    reply = await _ask(call, db, command)
    if reply.get("ok") == 1:
        return reply
    if reply.get("code") == Code.Unauthorized:
        raise NotAllowed(reply.get("errmsg", ""))
    figures.failed.append(next(iter(command)))
    return None


async def _ask(call: Call, db: str, command: Document) -> Document:
    return document_to_python(await call.run(db, command))
