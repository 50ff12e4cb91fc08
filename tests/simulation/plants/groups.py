"""Planted bugs of statements that are carried out side by side on a shard, beside moves."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_CARRIED_OUT = "docstore.node.write.groups.group:IdentityGroup._carried_out"
_WRITE = "self.write(unit, collection, result, stmt_ids)"

PLANTS = (
    Plant(
        "a group changes what is not owned",
        "groups-everywhere",
        _CARRIED_OUT,
        "self.work_out(collection, end, owned)",
        "self.work_out(collection, end, None)",
    ),
    Plant(
        "who moves a chunk is not told of groups",
        "groups",
        _CARRIED_OUT,
        _WRITE,
        f"told, unit._changes = unit._changes, unit._changes and []; {_WRITE}; unit._changes = told",
    ),
    Plant(
        "a group does not ask what was carried out before",
        "groups",
        _CARRIED_OUT,
        "not target.node.store.sessions.none_executed(*target.session_write, stmt_ids)",
        "False",
    ),
    Plant(
        "the statements of a group are not remembered",
        "groups",
        _CARRIED_OUT,
        _WRITE,
        "self.write(unit, collection, result, None)",
    ),
    Plant(
        "the log does not say which statements a group was",
        "groups-faults",
        "docstore.collection.oplog.journal:Journal.log_each",
        "*self._session, stmt_ids, self._row_key",
        "*self._session, [1000 + each for each in stmt_ids], self._row_key",
    ),
)
