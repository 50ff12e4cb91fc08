"""A stretch of a row's records, as one member asks another for it, and what that answers."""

from __future__ import annotations

import struct
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from docstore.bson import BINARY, array_value, document_from, elements, from_python, get_field, values
from docstore.bson.optime import NULL_OPTIME, OpTime
from docstore.errors import Code, CommandError
from docstore.node.wide.portions import read_portion
from docstore.node.wide.rows import row_tails
from docstore.node.wide.slicing import driven
from docstore.storage import Family
from docstore.wide.execution import Portion
from docstore.wide.keys import family_prefix
from docstore.wide.mutations import Entry, pack_entries, unpack_entries
from docstore.wide.values import binary_value

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.commands.context import Context
    from docstore.node.node import DataNode
    from docstore.node.wide.columns import Found

_POSITION = struct.Struct("<Qq")


class Stretch(NamedTuple):
    """Paths `points`, and at most `limit` records with paths in `[start, end)`, of the row whose part of keys is
    `tail`.
    """

    tail: bytes
    points: tuple[bytes, ...]
    start: bytes
    end: bytes
    reverse: bool
    limit: int


class Answer(NamedTuple):
    """`points` are the records at those paths; `optime` is of the last entry that the member had applied."""

    points: tuple[bytes | None, ...]
    portion: Portion
    optime: OpTime


async def read_stretch(context: Context, node: DataNode, collection: Collection, stretch: Stretch) -> Answer:
    """What this node holds of it."""
    snapshot = node.engine.snapshot()
    optime = node.store.last_optime
    prefix = family_prefix(collection.ident) + stretch.tail
    try:
        points = tuple(snapshot.get(Family.WIDE, prefix + path) for path in stretch.points)
    except BaseException:
        snapshot.close()
        raise
    if not stretch.limit:
        snapshot.close()
        return Answer(points, Portion([], False), optime)
    steps = read_portion(snapshot, prefix, stretch.start, stretch.end, reverse=stretch.reverse, limit=stretch.limit)
    portion = driven(context, steps, snapshot.close)
    return Answer(points, await portion if isawaitable(portion) else portion, optime)


async def ask_member(node: DataNode, address: str, namespace: str, stretch: Stretch, timeout: float) -> Answer:
    """What another member holds of it; nothing where it has not heard of the column family. `timeout` in seconds.

    Errors: NetworkError, CommandError.
    """
    database, _, name = namespace.partition(".")
    try:
        assert node.pool is not None, "members reach each other"
        reply = await node.pool.command(address, database, request_of(name, stretch), timeout=timeout)
    except CommandError as error:
        if error.code != Code.NamespaceNotFound:
            raise
        return Answer(tuple(None for _ in stretch.points), Portion([], False), NULL_OPTIME)
    return answer_of(reply)


async def list_rows(
    context: Context, node: DataNode, found: Found, start: bytes, end: bytes, limit: int
) -> list[bytes]:
    """The next rows that this node holds, as parts of keys."""
    snapshot = node.engine.snapshot()
    listed = driven(context, row_tails(found, snapshot, None, start, end, limit), snapshot.close)
    return await listed if isawaitable(listed) else listed


async def ask_rows(
    node: DataNode, address: str, namespace: str, bounds: tuple[bytes, bytes, int], timeout: float
) -> list[bytes]:
    """The next rows that another member holds. Errors: NetworkError, CommandError."""
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
    assert node.pool is not None, "members reach each other"
    reply = await node.pool.command(address, database, request, timeout=timeout)
    listed = get_field(reply, "rows")
    assert listed is not None, "the reply lists rows"
    return [bytes_of(value) for value in values(listed[1])]


def request_of(name: str, stretch: Stretch) -> bytes:
    """The command's body."""
    return document_from(
        [
            ("_wcRead", *from_python(name)),
            ("row", *binary_value(stretch.tail)),
            ("points", *array_value([binary_value(path) for path in stretch.points])),
            ("start", *binary_value(stretch.start)),
            ("end", *binary_value(stretch.end)),
            ("reverse", *from_python(stretch.reverse)),
            ("limit", *from_python(stretch.limit)),
            ("$readPreference", *from_python({"mode": "nearest"})),
        ]
    )


def stretch_of(arguments: Any) -> Stretch:
    """What a request asks for."""
    points = tuple(bytes_of(value) for value in values(arguments["points"]))
    return Stretch(
        bytes_of(arguments["row"]), points, bytes_of(arguments["start"]), bytes_of(arguments["end"]),
        arguments["reverse"], arguments["limit"],
    )  # fmt: skip


def bytes_of(value: Any) -> bytes:
    """Of a value that a member has sent."""
    assert value[0] == BINARY, "members send paths as binary data"
    return bytes(value[1][5:])


def document_of(answer: Answer) -> bytes:
    """The reply's body."""
    found = [Entry(b"%d" % place, record) for place, record in enumerate(answer.points) if record is not None]
    return document_from(
        [
            ("points", *binary_value(pack_entries(found))),
            ("known", *from_python(len(answer.points))),
            ("entries", *binary_value(pack_entries([Entry(*entry) for entry in answer.portion.entries]))),
            ("more", *from_python(answer.portion.more)),
            ("at", *binary_value(_POSITION.pack(answer.optime.timestamp, answer.optime.term))),
        ]
    )


def answer_of(reply: bytes) -> Answer:
    """What a reply says."""
    fields = {name: data for name, _, data in elements(reply)}
    points: list[bytes | None] = [None] * int.from_bytes(fields["known"], "little")
    for entry in unpack_entries(fields["points"][5:]):
        points[int(entry.path)] = entry.record
    timestamp, term = _POSITION.unpack(fields["at"][5:])
    entries = [(entry.path, entry.record) for entry in unpack_entries(fields["entries"][5:])]
    return Answer(tuple(points), Portion(entries, fields["more"] == b"\1"), OpTime(term, timestamp))
