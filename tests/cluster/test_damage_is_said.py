"""Files of dumps, archives and repositories are flipped, cut and removed: what is said of them is what is so.

A restore that ends well has restored all; one that fails has changed nothing, and names what is wrong. DOCSTORE_SEED
replays a failure, DOCSTORE_DAMAGE_CASES asks for more cases than the few that the suite has time for.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions
from click.testing import CliRunner
from pymongo import MongoClient

from docstore.backup.program import main as program
from docstore.testing import ReplicaSet
from docstore.tools import dump, restore

pytestmark = pytest.mark.cluster

Client = MongoClient[dict[str, Any]]
CASES = int(os.environ.get("DOCSTORE_DAMAGE_CASES", "6"))
EXACT: CodecOptions[dict[str, Any]] = CodecOptions()
_LOCK = ".lock"


@pytest.fixture(scope="module")
def seed() -> int:
    return int(os.environ.get("DOCSTORE_SEED") or random.SystemRandom().randrange(2**32))


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=1) as nodes:
        fill(nodes.client())
        yield nodes


def fill(client: Client) -> None:
    """Documents, options, indexes, a view, a time series, a user and a role."""
    shop = client["shop"]
    shop["a+b"].insert_many({"_id": n, "half": n // 2, "text": "x" * (n % 40)} for n in range(200))
    shop["a+b"].create_index([("half", 1), ("text", -1)], name="both")
    shop.create_collection("few", capped=True, size=4096)
    shop["few"].insert_one({"_id": 1})
    shop.create_collection("seen", viewOn="a+b", pipeline=[{"$match": {"half": 7}}])
    shop.create_collection("heat", timeseries={"timeField": "at"})
    shop["heat"].insert_many({"at": datetime(2026, 1, 1, n), "degrees": n} for n in range(20))
    shop.command("createRole", "reader", privileges=[], roles=["read"])
    shop.command("createUser", "ann", pwd="x", roles=["reader"])


def state(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for database in client.list_database_names():
        if database in ("admin", "config", "local"):
            continue
        for described in client[database].list_collections():
            name = described["name"]
            indexes = {} if described["type"] == "view" else client[database][name].index_information()
            if not name.startswith("system."):
                documents = sorted(bson.encode(each) for each in client[database][name].find())
                found[f"{database}.{name}"] = (described["type"], described["options"], documents, indexes)
    for name in ("system.users", "system.roles"):
        found[name] = sorted(bson.encode(each) for each in client["admin"][name].find())
    return found


@dataclass(frozen=True, slots=True)
class Harm:
    path: Path
    what: str

    def do(self, rng: random.Random) -> None:
        size = self.path.stat().st_size
        if self.what == "removed":
            self.path.unlink()
        elif self.what == "cut":
            os.truncate(self.path, rng.randrange(size) if size else 0)
        elif self.what == "cut behind a document":
            os.truncate(self.path, boundary(self.path.read_bytes(), rng))
        elif size:
            # In place: whoever shares the file by a hard link has the same damage.
            with self.path.open("r+b") as file:
                at = rng.randrange(size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes((byte ^ 1 << rng.randrange(8),)))


def boundary(content: bytes, rng: random.Random) -> int:
    """Where a document ends, of a file of documents; somewhere else of another."""
    ends = [0]
    while ends[-1] + 4 <= len(content):
        length = int.from_bytes(content[ends[-1] : ends[-1] + 4], "little")
        if not 5 <= length <= len(content) - ends[-1]:
            return rng.randrange(len(content))
        ends.append(ends[-1] + length)
    return rng.choice(ends[:-1]) if len(ends) > 1 else 0


def harmed(root: Path, rng: random.Random) -> Harm:
    """One file of those below a directory is harmed."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != _LOCK)
    harm = Harm(rng.choice(files), rng.choice(("flipped", "flipped", "cut", "cut behind a document", "removed")))
    harm.do(rng)
    return harm


def invoke(command: Any, *arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result.exit_code, result.output


@pytest.mark.parametrize("packing", [(), ("--gzip",)], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", ["directory", "archive"])
def test_a_damaged_dump(
    replica_set: ReplicaSet, tmp_path: Path, seed: int, form: str, packing: tuple[str, ...]
) -> None:
    client = replica_set.client()
    place, uri = tmp_path / "dump", ("--uri", replica_set.uri)
    to: Callable[[Path], tuple[str, ...]] = (
        (lambda root: (f"--dir={root}",)) if form == "directory" else (lambda root: (f"--archive={root / 'archive'}",))
    )
    whole = to(place)[0].replace("--dir", "--out")
    place.mkdir()
    assert invoke(dump.main, *uri, whole, *packing)[0] == 0
    expected = state(client)
    later = {"_id": "later"}
    for case in range(CASES):
        rng = random.Random(f"{seed} {form} {packing} {case}")
        broken = tmp_path / "broken"
        shutil.copytree(place, broken)
        harm = harmed(broken, rng)
        client["shop"]["a+b"].insert_one(later)
        before = state(client)
        code, said = invoke(restore.main, *uri, "--drop", *packing, *to(broken))
        told = f"DOCSTORE_SEED={seed} case {case}: {harm}\n{said}"
        after = state(client)
        if code == 0:
            # The inventory is what a dump of another tool has not, and what can be told of it is told.
            assert after == expected, told
            assert harm.what == "flipped" or "has no inventory" in said, told
        else:
            assert "Failed: " in said, told
            assert after == before, told
        client["shop"]["a+b"].delete_one(later)
        shutil.rmtree(broken)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_damaged_repository(replica_set: ReplicaSet, tmp_path: Path, seed: int) -> None:
    client, place, uri = replica_set.client(), tmp_path / "backups", ("--uri", replica_set.uri, "--quiet")
    numbers = count()
    for options in ((), (), ("--oplogOnly",)):
        client["shop"]["numbers"].insert_one({"_id": next(numbers)})
        assert invoke(program, "backup", "create", place, *uri, *options)[0] == 0
    good = contents(place)
    names = sorted({path.split("/")[0] for path in good} - {_LOCK})
    chains = {names[0]: names[:1], names[1]: names[1:2], names[2]: names[1:]}
    for case in range((CASES + 1) // 2):
        rng = random.Random(f"{seed} repository {case}")
        broken = tmp_path / "broken"
        copy_with_links(place, broken)
        harm = harmed(broken, rng)
        now = contents(broken)
        different = {path for path in good if path != _LOCK and now.get(path) != good[path]}
        spoiled = {path.split("/")[0] for path in different if path.endswith("manifest.json")}
        for name, chain in chains.items():
            bad = [path for path in different if path.split("/")[0] in chain]
            wanted = 1 if bad else 3 if spoiled else 0
            told = f"DOCSTORE_SEED={seed} case {case}: {harm}, {name}"
            code, said = invoke(program, "backup", "verify", broken, name)
            assert code == wanted, (told, said)
            target = tmp_path / "restored"
            code, restored = invoke(program, "restore", broken, "--backup", name, f"--member=h:1={target}")
            assert code == wanted, (told, restored)
            for text in (said, restored):
                assert wanted == 0 or any(Path(path).name in text for path in different), (told, text)
            assert target.exists() == (wanted != 1), told
            assert [each.name for each in tmp_path.iterdir() if "restoring" in each.name] == [], told
            shutil.rmtree(target, ignore_errors=True)
        code, said = invoke(program, "backup", "list", broken)
        assert code == (3 if spoiled else 0), (told, said)
        client["shop"]["numbers"].insert_one({"_id": next(numbers)})
        code, said = invoke(program, "backup", "create", broken, *uri)
        assert code in (0, 3), (told, said)
        assert code == 3 or not spoiled, (told, said)
        newest = invoke(program, "backup", "list", broken)[1].splitlines()[3].split()[0]
        code, said = invoke(program, "backup", "verify", broken, newest)
        assert code == (3 if spoiled else 0), (told, said)
        shutil.rmtree(broken)


def copy_with_links(source: Path, target: Path) -> None:
    """A copy whose files share what those of the source share."""
    copied: dict[int, Path] = {}
    target.mkdir()
    for path in sorted(source.rglob("*")):
        other = target / path.relative_to(source)
        if path.is_dir():
            other.mkdir()
        elif (first := copied.get(path.stat().st_ino)) is not None:
            os.link(first, other)
        else:
            shutil.copy2(path, other)
            copied[path.stat().st_ino] = other
