"""Where stages may stand that tell of processes and sessions: beside which database and collection."""

from __future__ import annotations

from collections.abc import Sequence

from docstore.bson import elements
from docstore.errors import Code, CommandError

_ON_THE_PROCESS = ("$currentOp", "$listLocalSessions")
"""Stages that need `{aggregate: 1}`; the first one the admin database too."""

_SESSIONS = "config.system.sessions"


def check_stage_places(db: str, collection: str | None, stages: Sequence[bytes]) -> None:
    """Refuse stages that cannot stand where an aggregate names this collection, or none. Errors: InvalidNamespace."""
    for stage in stages:
        for name, _, _ in elements(stage):
            if name in _ON_THE_PROCESS and (collection is not None or (name == "$currentOp" and db != "admin")):
                where = "the 'admin' database" if name == "$currentOp" else "the database"
                raise CommandError(Code.InvalidNamespace, f"{name} must be run against {where} with {{aggregate: 1}}")
            if name == "$listSessions" and f"{db}.{collection}" != _SESSIONS:
                raise CommandError(Code.InvalidNamespace, f"$listSessions may only be run against {_SESSIONS}")
