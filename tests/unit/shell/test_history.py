"""What the shell keeps of the lines that were typed."""

from __future__ import annotations

import stat
from pathlib import Path

from shell.terminal import History


def test_lines_with_passwords_are_not_kept_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = History(str(path))
    for line in (
        "db.c.find({author: 1})",
        "db.createUser({user: 'a', pwd: 'hidden', roles: []})",
        "db.auth('a', 'hidden')",
        "db.changeUserPassword('a', 'hidden')",
        "connect('mongodb://a:hidden@h/')",
        "db.runCommand({updateUser: 'a', pwd: 'hidden'})",
        "db.c.count()",
    ):
        history.append_string(line)
    assert list(History(str(path)).load_history_strings()) == ["db.c.count()", "db.c.find({author: 1})"]
    assert "hidden" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
