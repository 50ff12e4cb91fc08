"""The names of a dump's files, and the inventory that says what they must be."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, unquote_plus

import pytest

from docstore.tools.dumped import inventory
from docstore.tools.dumped.files import documents_file, metadata_file
from docstore.tools.dumped.inventory import DumpedCollection, fault_of, file_of, find_inventory, read_inventory
from docstore.tools.dumped.targets import DirectoryTarget, Source
from docstore.tools.terminal import ToolFailed


@pytest.mark.parametrize("name", ["a+b", "a b", "a/b", "a%b", "ä", "a:b", "a=b&c", "a!(b)", "a.b-c_d~e", 'a"<|>*?\\b'])
def test_a_name_is_read_alike_by_every_reader(name: str) -> None:
    written = documents_file(Path("x"), "d", name, compressed=False).name.removesuffix(".bson")
    assert unquote(written) == unquote_plus(written) == name
    assert not set(written) - set("abcdeABCDEF0123456789%.-_~")


def test_users_of_one_database_have_the_name_that_readers_look_for() -> None:
    assert documents_file(Path("x"), "d", "$admin.system.users", compressed=False).name == "$admin.system.users.bson"


@pytest.mark.parametrize("length", [200, 238, 239, 255])
@pytest.mark.parametrize("character", ["a", "ä"])
def test_a_long_name_fits(length: int, character: str, tmp_path: Path) -> None:
    name = metadata_file(tmp_path, "", character * length, compressed=True)
    name.touch()
    assert len(name.name) <= 255
    stem = name.name.removesuffix(".metadata.json.gz")
    assert (len(stem) > 238) is False
    assert ("%24" in stem) == (length * len(character.encode()) * (1 if character == "a" else 3) > 238)


def dumped(root: Path, *names: str, complete: bool = True) -> None:
    sources = [Source("d", name, "d", name, {"options": {}}, {}, has_documents=True) for name in names]
    target = DirectoryTarget(root, compressed=False)
    target.begin(sources, server="6", parallel=1, with_oplog=False)
    for source in sources:
        with target.open(source) as sink:
            sink.write(b"documents of " + source.collection.encode())
    if complete:
        target.close()


def test_an_inventory_has_the_collections_of_all_dumps(tmp_path: Path) -> None:
    dumped(tmp_path, "a", "b")
    dumped(tmp_path, "b", "c", complete=False)
    for part in (tmp_path, tmp_path / "d", tmp_path / "d" / "a.bson"):
        found = find_inventory(part)
        assert found is not None
        assert [(each.collection, each.finished) for each in found.collections] == [
            ("a", True), ("b", False), ("c", False),
        ]  # fmt: skip
    (files,) = (each.files for each in read_inventory(tmp_path).collections if each.collection == "a")
    assert {file.path for file in files} == {"d/a.bson", "d/a.metadata.json"}
    assert [fault_of(tmp_path, file) for file in files] == [None, None]


def test_what_a_file_is_is_compared(tmp_path: Path) -> None:
    dumped(tmp_path, "a")
    path = tmp_path / "d" / "a.bson"
    (noted,) = (each for each in read_inventory(tmp_path).collections[0].files if each.path == "d/a.bson")
    content = path.read_bytes()
    for harm, why in (
        (content[:-1], "has 13 bytes and had 14"),
        (b"x" + content[1:], "its checksum"),
        (None, "missing"),
    ):
        path.unlink() if harm is None else path.write_bytes(harm)
        assert why in str(fault_of(tmp_path, noted))


def test_a_damaged_inventory_is_said(tmp_path: Path) -> None:
    dumped(tmp_path, "a")
    path = tmp_path / inventory.NAME
    content = path.read_bytes()
    for harm in (content.replace(b"a.bson", b"b.bson"), content[:-20], b"[]"):
        path.write_bytes(harm)
        with pytest.raises(ToolFailed, match="is damaged"):
            find_inventory(tmp_path)


def test_a_finished_collection_replaces_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    inventory.begin(tmp_path, [("d", "a")])
    inventory.finish(
        tmp_path, [DumpedCollection("d", "a", finished=False, files=(file_of(tmp_path, tmp_path / "f", 5),))]
    )
    (entry,) = read_inventory(tmp_path).collections
    assert entry.finished
    assert (entry.files[0].size, entry.files[0].crc) == (1, 5)
