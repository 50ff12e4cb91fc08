"""Directories that are made whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from docstore.backup.directories import new_directories
from docstore.storage.restored import identity_of
from docstore.tools.terminal import ToolFailed


def test_directories_are_there_when_all_are_whole(tmp_path: Path) -> None:
    one, two = tmp_path / "deep" / "one", tmp_path / "two"
    with new_directories([one, two]) as making:
        (making[one] / "file").write_bytes(b"x")
        assert not one.exists()
        assert not two.exists()
    assert (one / "file").read_bytes() == b"x"
    assert two.is_dir()
    with pytest.raises(ToolFailed, match="is not empty"), new_directories([two, one]):
        pass


def test_what_an_interrupted_restore_has_left_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    with new_directories([path]) as first:
        pass
    shutil.rmtree(path)
    first[path].mkdir()
    (first[path] / "half").touch()
    with new_directories([path]) as making:
        assert not list(making[path].iterdir())
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_directories([tmp_path / "one", tmp_path / "two"]):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_a_name_that_cannot_be_given_leaves_nothing(tmp_path: Path) -> None:
    """The last of the names is taken while the directories are made: the first one has its name by then."""
    paths = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(OSError, match="not empty"), new_directories(paths):
        (paths[1] / "taken").mkdir(parents=True)
    assert not paths[0].exists()
    assert not list(tmp_path.glob(".*"))


def test_a_restored_directory_has_an_identity_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "IDENTITY").write_text("a\n")
    paths = [tmp_path / "one", tmp_path / "two"]
    with new_directories(paths) as making:
        for directory in making.values():
            (directory / "IDENTITY").write_text("a\n")
    identities = [identity_of(path) for path in (tmp_path / "source", *paths)]
    assert identities[0] == "a"
    assert len(set(identities)) == 3
