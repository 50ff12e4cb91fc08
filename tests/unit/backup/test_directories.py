"""Directories that are made whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.backup.directories import new_directory
from docstore.tools.terminal import ToolFailed


def test_a_directory_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    with new_directory(path) as making:
        (making / "file").write_bytes(b"x")
        assert not path.exists()
    assert (path / "file").read_bytes() == b"x"
    with pytest.raises(ToolFailed, match="is not empty"), new_directory(path):
        pass


def test_what_an_interrupted_restore_has_left_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    with new_directory(path) as first:
        pass
    path.rmdir()
    first.mkdir()
    (first / "half").touch()
    with new_directory(path) as making:
        assert not list(making.iterdir())
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "data"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
