"""Reads of a range of a row's records between members: request and reply."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bson.int64 import Int64

from docstore.bson import append_fields, array_value, document_from, elements, from_python, get_field, values
from docstore.errors import Code, CommandError
from docstore.key_layout import family_prefix
from docstore.node.entry import enter_read
from docstore.node.slices import Steps, finish_steps
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.replicaset import ReplicaSet
from docstore.storage import Snapshot
from docstore.widecolumn.model.executor import RecordPage, Stored
from docstore.widecolumn.model.internal_requests import bytes_of
from docstore.widecolumn.model.mutations import Entry, pack_entries, unpack_entries
from docstore.widecolumn.model.values import binary_value
from docstore.widecolumn.node.read_state import WideCells, check_current
from docstore.widecolumn.node.record_pages import find_row_keys, read_page

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.commands.context import Context
    from docstore.node.node import DataNode
    from docstore.widecolumn.node.keyspaces import FamilyStore

_POSITION = struct.Struct("<Qq")


class RecordRange(NamedTuple):
    """Paths `points`, and at most `limit` records with paths in `[start, end)`, of the row whose row key is
    `row_key`; with `head` also all that stand before its columns.
    """

    row_key: bytes
    points: tuple[bytes, ...]
    start: bytes
    end: bytes
    reverse: bool
    limit: int
    head: bool = False


class RecordRangeReply(NamedTuple):
    """`points` are the records at those paths; `optime` is of the last entry that the member had applied, `term` the
    one that it was in when that had been read; `votes`: whether it has a vote in elections.
    """

    points: tuple[bytes | None, ...]
    page: RecordPage
    optime: OpTime
    term: int
    votes: bool


class RowKeyList(NamedTuple):
    """Row keys; `optime` is of the last entry that the member had applied."""

    row_keys: list[bytes]
    optime: OpTime


def _state(context: Context, node: DataNode, collection: Collection) -> Steps[Snapshot]:
    """The newest state, taken where the ownership lets the request in: nothing that moves away is deleted in it yet.

    Errors: StaleConfig; those of `check_current`.
    """
    yield from enter_read(context, collection.ns)
    check_current(context, collection)
    return node.engine.snapshot()


async def read_record_range(
    context: Context, node: DataNode, collection: Collection, record_range: RecordRange
) -> RecordRangeReply:
    """Return this node's records of the range. Errors: StaleConfig."""
    return await finish_steps(context, _record_range(context, node, collection, record_range))


def _record_range(
    context: Context, node: DataNode, collection: Collection, record_range: RecordRange
) -> Steps[RecordRangeReply]:
    snapshot = yield from _state(context, node, collection)
    optime = node.store.last_optime
    prefix = family_prefix(collection.ident) + record_range.row_key
    try:
        cells = WideCells(snapshot)
        points = tuple(cells.get(prefix + path) for path in record_range.points)
        page = RecordPage([], False)
        if record_range.limit:
            page = yield from read_page(
                cells,
                prefix,
                record_range.start,
                record_range.end,
                reverse=record_range.reverse,
                limit=record_range.limit,
                head=record_range.head,
            )
    finally:
        snapshot.close()
    return RecordRangeReply(points, page, optime, *_standing(node))


def _standing(node: DataNode) -> tuple[int, bool]:
    """(the term that the node is in, whether it votes)."""
    replication = node.replication
    if not isinstance(replication, ReplicaSet):
        return 0, True
    state = replication.membership.state
    return state.term, state.me is not None and state.me.voter


def _with_version(context: Context, request: bytes) -> bytes:
    """The request with the version that the client's was routed by: a member that knows of a later one refuses it."""
    version = context.shard_version
    return request if version is None else append_fields(request, b"\x03shardVersion\0" + version)


async def ask_member(
    context: Context, node: DataNode, address: str, namespace: str, record_range: RecordRange, timeout: float
) -> RecordRangeReply:
    """Return another member's records of the range; none if it does not know the column family. `timeout` in seconds.

    Errors: NetworkError, CommandError.
    """
    database, _, name = namespace.partition(".")
    try:
        assert node.pool is not None, "members reach each other"
        request = _with_version(context, request_of(name, record_range))
        reply = await node.pool.command(address, database, request, timeout=timeout)
    except CommandError as error:
        if error.code != Code.NamespaceNotFound:
            raise
        return RecordRangeReply(tuple(None for _ in record_range.points), RecordPage([], False), NULL_OPTIME, -1, False)
    return answer_of(reply)


async def list_rows(
    context: Context, node: DataNode, found: FamilyStore, start: bytes, end: bytes, limit: int
) -> RowKeyList:
    """The next rows that this node holds. Errors: StaleConfig."""
    return await finish_steps(context, _listing(context, node, found, (start, end, limit)))


def _listing(
    context: Context, node: DataNode, found: FamilyStore, bounds: tuple[bytes, bytes, int]
) -> Steps[RowKeyList]:
    snapshot = yield from _state(context, node, found.collection)
    optime = node.store.last_optime
    try:
        return RowKeyList((yield from find_row_keys(found, WideCells(snapshot), None, *bounds)), optime)
    finally:
        snapshot.close()


async def ask_rows(
    context: Context, node: DataNode, address: str, namespace: str, bounds: tuple[bytes, bytes, int], timeout: float
) -> RowKeyList:
    """Return the next rows that another member holds; none if it does not know the column family.

    Errors: NetworkError, CommandError.
    """
    database, _, name = namespace.partition(".")
    start, end, limit = bounds
    request = document_from(
        [
            ("_wcRows", *from_python(name)),
            ("start", *binary_value(start)),
            ("end", *binary_value(end)),
            ("limit", *from_python(limit)),
            ("$readPreference", *from_python({"mode": "nearest"})),
        ]
    )
    try:
        assert node.pool is not None, "members reach each other"
        reply = await node.pool.command(address, database, _with_version(context, request), timeout=timeout)
    except CommandError as error:
        if error.code != Code.NamespaceNotFound:
            raise
        return RowKeyList([], NULL_OPTIME)
    listed, at = get_field(reply, "rows"), get_field(reply, "at")
    assert listed is not None, "the reply lists rows"
    assert at is not None, "the reply says how far the member was"
    return RowKeyList([bytes_of(value, "rows") for value in values(listed[1])], _optime_of(bytes_of(at, "at")))


def listing_document(listing: RowKeyList) -> bytes:
    """The reply's body."""
    rows = array_value([binary_value(row_key) for row_key in listing.row_keys])
    return document_from([("rows", *rows), ("at", *binary_value(_position_of(listing.optime)))])


def _position_of(optime: OpTime) -> bytes:
    return _POSITION.pack(optime.timestamp, optime.term)


def _optime_of(packed: bytes) -> OpTime:
    timestamp, term = _POSITION.unpack(packed)
    return OpTime(term, timestamp)


def request_of(name: str, record_range: RecordRange) -> bytes:
    """The command's body."""
    return document_from(
        [
            ("_wcRead", *from_python(name)),
            ("row", *binary_value(record_range.row_key)),
            ("points", *array_value([binary_value(path) for path in record_range.points])),
            ("start", *binary_value(record_range.start)),
            ("end", *binary_value(record_range.end)),
            ("reverse", *from_python(record_range.reverse)),
            ("limit", *from_python(record_range.limit)),
            ("head", *from_python(record_range.head)),
            ("$readPreference", *from_python({"mode": "nearest"})),
        ]
    )


def record_range_of(arguments: Any) -> RecordRange:
    """Decode the range of a request."""
    points = tuple(bytes_of(value, "points") for value in values(arguments["points"]))
    row, start, end = (bytes_of(arguments[name], name) for name in ("row", "start", "end"))
    return RecordRange(
        row, points, start, end,
        arguments["reverse"], arguments["limit"], arguments["head"],
    )  # fmt: skip


def document_of(answer: RecordRangeReply) -> bytes:
    """The reply's body."""
    point_entries = [
        Entry(b"%d" % position, record) for position, record in enumerate(answer.points) if record is not None
    ]
    page = answer.page
    return document_from(
        [
            ("points", *binary_value(pack_entries(point_entries))),
            ("known", *from_python(len(answer.points))),
            ("entries", *binary_value(_packed(page.entries))),
            ("head", *binary_value(_packed(page.head))),
            ("more", *from_python(page.more)),
            ("at", *binary_value(_position_of(answer.optime))),
            ("term", *from_python(Int64(answer.term))),
            ("votes", *from_python(answer.votes)),
        ]
    )


def _packed(stored: Sequence[Stored]) -> bytes:
    return pack_entries([Entry(path, record) for path, record in stored])


def _unpacked(data: bytes) -> list[Stored]:
    return [(entry.path, entry.record) for entry in unpack_entries(data[5:])]


def answer_of(reply: bytes) -> RecordRangeReply:
    """Decode a reply."""
    fields = {name: data for name, _, data in elements(reply)}
    points: list[bytes | None] = [None] * int.from_bytes(fields["known"], "little")
    for entry in unpack_entries(fields["points"][5:]):
        points[int(entry.path)] = entry.record
    page = RecordPage(_unpacked(fields["entries"]), fields["more"] == b"\1", tuple(_unpacked(fields["head"])))
    term = int.from_bytes(fields["term"], "little", signed=True)
    return RecordRangeReply(tuple(points), page, _optime_of(fields["at"][5:]), term, fields["votes"] == b"\1")
