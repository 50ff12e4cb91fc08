"""The directory of backups: what stands in it is whole, whoever looks and whatever was interrupted."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from docstore.backup import transfer
from docstore.backup.durable import write_durably
from docstore.backup.failures import Damaged
from docstore.backup.manifest import Manifest, Part, StoredFile
from docstore.backup.repository import Inventory, Repository
from docstore.tools.terminal import ToolFailed


def made(repository: Repository) -> Manifest:
    """A backup of one file."""
    name, directory = repository.begin()
    (directory / "node").mkdir()
    size, sha256 = write_durably(directory / "node" / "1.sst", [b"con", b"tent"])
    part = Part(
        name="node", directory="node", member="h:1", set_name=None, set_id=None, database="d",
        files=(StoredFile(name="1.sst", size=size, modified=5, sha256=sha256),), after=None, until=None, span=None,
        collections={"shop.rows": (3, "abc")},
    )  # fmt: skip
    manifest = Manifest(
        name=name, kind="node", content="full", began="2026-11-25T12:00:00+00:00", ended="2026-11-25T12:01:00+00:00",
        point=None, version="1", parts=(part,),
    )  # fmt: skip
    repository.finish(directory, manifest)
    return manifest


def test_a_backup_is_read_as_it_was_written(tmp_path: Path) -> None:
    with Repository.writing(tmp_path / "new" / "backups") as repository:
        manifests = [made(repository), made(repository)]
    with Repository.reading(tmp_path / "new" / "backups") as repository:
        assert repository.inventory() == Inventory(tuple(manifests), {})
        repository.check(manifests[0])
    assert (tmp_path / "new" / "backups").stat().st_mode & 0o077 == 0


def test_one_process_writes_and_several_read(tmp_path: Path) -> None:
    with Repository.writing(tmp_path), pytest.raises(ToolFailed, match="in use"), Repository.reading(tmp_path):
        pass
    refused = pytest.raises(ToolFailed, match="in use")
    with Repository.reading(tmp_path), Repository.reading(tmp_path), refused, Repository.writing(tmp_path):
        pass
    with pytest.raises(ToolFailed, match="there is no repository"), Repository.reading(tmp_path / "none"):
        pass


def test_what_was_interrupted_goes_with_the_next_write(tmp_path: Path) -> None:
    with Repository.writing(tmp_path) as repository:
        kept = made(repository)
        repository.begin()
        (tmp_path / kept.name).rename(tmp_path / f".removed-{kept.name}")
        kept = made(repository)
    with Repository.writing(tmp_path) as repository:
        assert repository.names() == [kept.name]
        assert {each.name for each in tmp_path.iterdir()} == {kept.name, ".lock"}


@pytest.mark.parametrize("harm", [b"", b"{}", b"[1]", b"\xff"])
def test_a_damaged_manifest(tmp_path: Path, harm: bytes) -> None:
    with Repository.writing(tmp_path) as repository:
        name = made(repository).name
        (tmp_path / name / "manifest.json").write_bytes(harm)
        with pytest.raises(Damaged, match=r"manifest\.json is damaged"):
            repository.manifest(name)


def test_a_manifest_that_was_changed_or_is_of_another_program(tmp_path: Path) -> None:
    with Repository.writing(tmp_path) as repository:
        name = made(repository).name
        place = tmp_path / name / "manifest.json"
        document = json.loads(place.read_bytes())
        document["manifest"]["parts"][0]["member"] = "h:2"
        place.write_text(json.dumps(document))
        with pytest.raises(Damaged, match="checksum"):
            repository.manifest(name)
        (tmp_path / name).rename(tmp_path / f"{name[:5]}9{name[6:]}")
        good, inventory = made(repository), repository.inventory()
        assert inventory.manifests == (good,)
        assert [(each[:6], "checksum" in text) for each, text in inventory.damaged.items()] == [("000009", True)]


def test_a_damaged_manifest_concerns_its_own_backup_alone(tmp_path: Path) -> None:
    with Repository.writing(tmp_path) as repository:
        first, second, third = (made(repository) for _ in range(3))
        os.truncate(tmp_path / second.name / "manifest.json", 100)
        inventory = repository.inventory()
        assert inventory.manifests == (first, third)
        inventory.require(first.name)
        inventory.require_newest()
        with pytest.raises(Damaged, match=second.name):
            inventory.require(second.name)
        (tmp_path / third.name / "manifest.json").unlink()
        with pytest.raises(Damaged, match=f"the newest backup is damaged.*{third.name}"):
            repository.inventory().require_newest()


def test_the_manifest_of_a_program_that_did_not_note_the_end(tmp_path: Path) -> None:
    with Repository.writing(tmp_path) as repository:
        manifest = made(repository)
        content = json.loads(manifest.encode())["manifest"]
        del content["ended"]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        text = json.dumps({"sha256": digest, "manifest": content})
        (tmp_path / manifest.name / "manifest.json").write_text(text)
        assert repository.manifest(manifest.name).ended == manifest.began


def test_a_file_is_copied_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, sha256 = write_durably(tmp_path / "old", [b"content"])
    file = StoredFile(name="old", size=size, modified=1, sha256=sha256)
    transfer._share(tmp_path / "old", tmp_path / "linked", file)
    assert (tmp_path / "linked").stat().st_ino == (tmp_path / "old").stat().st_ino

    def refuse(*_arguments: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", refuse)
    transfer._share(tmp_path / "old", tmp_path / "copied", file)
    assert (tmp_path / "copied").read_bytes() == b"content"
    assert (tmp_path / "copied").stat().st_ino != (tmp_path / "old").stat().st_ino
