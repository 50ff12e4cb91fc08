"""Fast path: inserts and reads of one column by name, which are most commands of the column model.

Each function either executes the whole command, or has no effect and returns None. It then leaves the command to the
general implementation.

Invariant: the outcome equals that of the general implementation, to which all these cases are left:

- a super column, a TTL, a level above ONE, or explain in the request;
- a name that needs validation;
- a deletion of the row, or a tombstone;
- a row that the shard does not own, a critical section, or a write lock.
"""

from __future__ import annotations

from docstore.bson import INT64, Value
from docstore.bson.build import enclosed
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.kernel.columns.encoding import is_live, plain_bytes, plain_row
from docstore.kernel.columns.mutations import plain_insert
from docstore.node.node import DataNode
from docstore.node.read.snapshot import newest
from docstore.node.shard_filter import enter_at_once
from docstore.storage import Family
from docstore.widecolumn.model.cells import NOT_DELETED, stamp_of
from docstore.widecolumn.model.errors import not_found
from docstore.widecolumn.model.keys import COLUMNS, ROW_DELETION
from docstore.widecolumn.model.mutations import Entry
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.read_state import is_owned
from docstore.widecolumn.node.row_writes import LOWEST_STAMP, RowChange, RowsWriter
from docstore.widecolumn.node.write_replies import reply_written

_INSERTED = frozenset(("key", "column", "value", "timestamp", "consistency"))
_READ = frozenset(("key", "column", "bytesAs", "consistency"))
_ONE = "ONE"
_WIDE = Family.WIDE


def insert_plain(context: Context, node: DataNode, arguments: Arguments) -> bytes | None:
    """Insert one column at level ONE."""
    values = arguments.values
    family = wide_of(node).known(context.namespace)
    if family is None or family.kernel_forms is None or node.store.write_lock.is_held:
        return None
    named: Value | None = values.get("column")
    if named is None or not _INSERTED.issuperset(values) or values.get("consistency", _ONE) != _ONE:
        return None
    timestamp: Value | None = values.get("timestamp")
    if timestamp is None:
        stamp = stamp_of(wide_of(node).timestamp())
    elif timestamp[0] == INT64:
        stamp = timestamp[1][::-1]
        if stamp == LOWEST_STAMP:
            return None
    else:
        return None
    settings = wide_of(node).settings
    plain = plain_insert(family.kernel_forms.binary, values["key"], named, values["value"], stamp, settings.max_value)
    if plain is None or len(plain[2]) > settings.warn_value:
        return None
    try:
        node.replication.check_write()
    except CommandError:
        # The general implementation raises the proper error.
        return None
    row_key, path, record = plain
    at_once, owned = enter_at_once(node.shard_filter, context.namespace, context.shard_version, write=True)
    if not at_once or not is_owned(family, row_key, owned):
        return None
    change = RowChange(family, plain_bytes(*values["key"]) or b"", (Entry(path, record, len(path)),))
    writing = RowsWriter(node, (change,))
    writing.advance(owned, 0.0)
    return reply_written(record, writing.warnings)


def get_plain(context: Context, node: DataNode, arguments: Arguments) -> bytes | None:
    """Read one column at level ONE. Errors: NotFound."""
    values = arguments.values
    family = wide_of(node).known(context.namespace)
    if family is None or family.kernel_forms is None:
        return None
    named: Value | None = values.get("column")
    if named is None or not _READ.issuperset(values) or values.get("consistency", _ONE) != _ONE:
        return None
    bytes_as = values.get("bytesAs")
    at_once, owned = newest(context)
    if bytes_as not in (None, "string", "binary") or not at_once:
        return None
    form = family.kernel_forms.text if bytes_as == "string" else family.kernel_forms.binary
    row_key = plain_row(*values["key"])
    name = form.encode(*named)
    if row_key is None or name is None or not is_owned(family, row_key, owned):
        return None
    get = node.engine.get
    prefix = family.collection.rows_prefix + row_key
    if get(_WIDE, prefix + ROW_DELETION) is not None:
        return None
    base = prefix + COLUMNS
    key = base + name
    record = get(_WIDE, key)
    now = 0
    if record is not None and record[0]:
        now = wide_of(node).now()
        if not is_live(record, NOT_DELETED.timestamp, now):
            return None
    metrics = wide_of(node).settings.metrics
    metrics.reads += 1
    metrics.keys_examined += 1
    if record is None:
        raise not_found()
    return enclosed(b"\x03column\0" + form.document(key, len(base), record, now))
