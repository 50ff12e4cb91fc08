"""Bugs in what shards tell each other of the retryable writes that were executed."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_HISTORY = "mongod.migration.session_history"
_READ = f"{_HISTORY}:_read_session"

PLANTS = (
    Plant(
        "history goes out before a majority has it",
        "retries-rollback",
        f"{_HISTORY}:read_batch",
        "    if statements:\n",
        "    if False:\n",
    ),
    Plant(
        "a recipient is not told that a history is incomplete",
        "retries-copied",
        _READ,
        "page.add(_dead_end(lsid, row.txn_number))",
        "pass",
    ),
    Plant(
        "a new primary shard is not told that a history is incomplete",
        "retries-primaries",
        _READ,
        "page.add(_dead_end(lsid, row.txn_number))",
        "pass",
    ),
    Plant(
        "all sessions are read in one turn of the loop",
        "retries-many-sessions",
        f"{_HISTORY}:_Page.is_full",
        "self._reads >= MAX_PAGE_READS",
        "False",
    ),
    Plant(
        "a session's numbers before the newest are not told to be over",
        "retries-short-log",
        _READ,
        "if not concerned and row.txn_number > 0:",
        "if False:",
    ),
    Plant(
        "a recipient does not log that a history is incomplete",
        "retries-short-log",
        f"{_HISTORY}:_log",
        "unit.noop(EMPTY_DOCUMENT, stmt_id=DEAD_END)",
        "pass",
    ),
    Plant(
        "a history that is incomplete is taken for all there was",
        "retries-copied",
        "docstore.collection.oplog.sessions:SessionTable.statement",
        "if step is None and DEAD_END in statements:",
        "if False:",
    ),
    Plant(
        "a dead end does not go on to the next shard",
        "retries-short-log",
        f"{_HISTORY}:_Page.take",
        "if op == _NOTHING:",
        "if op == _NOTHING and not stmt_ids:",
    ),
    Plant(
        "measurements that came together are not told",
        "retries-primaries",
        f"{_HISTORY}:_Page.take",
        "if session is None or not session[1]:",
        "if session is None or len(session[1]) != 1:",
    ),
    Plant(
        "an update that was made where a document came from stays",
        "retries-short-log",
        f"{_HISTORY}:range_concern",
        "if named is None or bounds.holds(named):",
        "if named is not None and bounds.holds(named) and False:",
    ),
)
