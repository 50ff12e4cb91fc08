"""The server parameter for the maximum age of reads at a past cluster time."""

from __future__ import annotations

from typing import Any

from docstore.collection.oplog.undo_history import UndoHistory
from docstore.commands.parameters import ServerParameter, whole_number
from docstore.errors import Code, CommandError

_NAME = "minSnapshotHistoryWindowInSeconds"


def snapshot_window(history: UndoHistory) -> ServerParameter:
    """Return the parameter, which reads and sets the undo history's window."""

    def assign(value: Any) -> None:
        seconds = whole_number(_NAME, value)
        if seconds < 0:
            text = f"Invalid value for parameter {_NAME}: {seconds} is not greater than or equal to 0"
            raise CommandError(Code.BadValue, text)
        history.window = seconds

    return ServerParameter(name=_NAME, get=lambda: history.window, assign=assign)
