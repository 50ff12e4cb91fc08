"""`mongofiles` writes files by the names that they have on the server, inside the directory it was started in."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docstore.tools.grid_files import Files
from docstore.tools.terminal import Terminal, ToolFailed


class Stored(io.BytesIO):
    """A file of a bucket."""

    def __init__(self, filename: str) -> None:
        super().__init__(b"content")
        self.filename = filename


class Bucket:
    """Files in GridFS, each found by every condition."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def find(self, _condition: Any) -> Any:
        return self

    def sort(self, _field: str, _direction: int) -> list[Stored]:
        return list(map(Stored, self._names))

    def open_download_stream(self, _identity: Any) -> Stored:
        return Stored(self._names[0])


def files(*names: str, local: str | None = None) -> Files:
    bucket: Any = Bucket(*names)
    return Files(bucket, Terminal(quiet=True), local, replace=False, kind=None)


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "{}/outside", ".."])
def test_no_name_on_the_server_leads_out_of_the_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in")
    name = name.format(tmp_path)
    for get in (lambda: files("plain", name).get_regex([".*"]), lambda: files(name).get_id(['"x"'])):
        with pytest.raises(ToolFailed, match="leads out"):
            get()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["plain"]
    files(name, local=str(tmp_path / "named")).get_id(['"x"'])
    assert (tmp_path / "named").read_bytes() == b"content"


def test_names_inside_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    files("a/b", "..c", "d..").get_regex([".*"])
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["..c", "b", "d.."]


class Replacing(Bucket):
    """A bucket with one file, which logs what is done to it."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__("name")
        self.log: list[str] = []
        self._fails = fails

    def find(self, _condition: Any) -> Any:
        return [SimpleNamespace(_id=7)]

    def delete(self, identity: Any) -> None:
        self.log.append(f"delete {identity}")

    def upload_from_stream(self, _name: str, _source: Any, metadata: Any) -> None:
        self.log.append("upload")
        if self._fails:
            raise OSError("the disk is full")


def replace(bucket: Any, local: Path) -> None:
    Files(bucket, Terminal(quiet=True), str(local), replace=True, kind=None).put(["name"])


def test_a_stored_file_is_replaced_once_the_new_one_is_there(tmp_path: Path) -> None:
    bucket = Replacing()
    with pytest.raises(FileNotFoundError):
        replace(bucket, tmp_path / "missing")
    assert bucket.log == []
    (tmp_path / "local").write_bytes(b"new")
    failing = Replacing(fails=True)
    with pytest.raises(OSError, match="full"):
        replace(failing, tmp_path / "local")
    assert failing.log == ["upload"]
    replace(bucket, tmp_path / "local")
    assert bucket.log == ["upload", "delete 7"]
