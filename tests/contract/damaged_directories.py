"""Damages data directories, and judges what starts and repairs say and save.

`python -m tests.contract.damaged_directories --cases 2000 [--seed N] [--only N] [--kind KIND]` prints a summary, and
each violation with its seed; the exit status is 1 if there is one. The cases are those of the seeds from N on, each by
itself: several processes take a range each, and a run that was ended goes on at the seed of its last line. `--plant`
plants a bug, which must be noticed. With a TMPDIR in memory a case takes a part of the time.

A case: a history of several lives, the last killed; one file flipped, cut, overwritten, removed, put in another order
or replaced by that of another directory, and in some cases a second one, or several removed together; then starts and
repairs, some of them killed. What a finished flush covered is acknowledged. Violations are:

* something acknowledged is missing, older or back again, and neither a refused start nor a read nor a repair said so;
* a document stands in another collection than the one it was written to (`lost.<n>` holds those of one collection);
* a refused start has changed a file; a repair in which nothing was lost says that something was, or the reverse;
* a repaired member of a set would vote.

Every step that opens a directory runs in a process of its own, as RocksDB does not survive a fork.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from docstore.bson import from_python
from docstore.collection.catalog import catalog
from docstore.collection.store import Store
from docstore.node.process import repair as process_repair
from docstore.node.process.repair import repair
from docstore.replicaset.local_state import LocalState
from docstore.storage import (
    DataCorrupted,
    Family,
    StorageError,
    durable,
    inspection,
    log_replay,
    opening,
    rocks,
    salvage,
)
from docstore.storage import repairs as repairs_module
from docstore.storage.repairs import recorded_losses
from docstore.storage.restored import mark_restored
from docstore.widecolumn.node.storage_mode import WideColumnMode
from tests.contract.directory_damage import HARMLESS, KINDS, WEIGHTS, damage
from tests.contract.directory_histories import Expectation, read_expectation, write_history
from tests.unit.collection.building import doc, plain

_KILLED = 9


def in_child(work: Callable[[], Any], *, may_be_killed: bool = False) -> Any:
    """Return what `work` returns in a forked process; None where that was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 0
        try:
            said = json.dumps({"value": work()})
        except BaseException:
            said, status = json.dumps({"error": traceback.format_exc()}), 1
        with os.fdopen(writer, "w") as pipe:
            pipe.write(said)
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if may_be_killed and status == -_KILLED:
        return None
    answer: dict[str, Any] = json.loads(text) if text else {"error": f"the process ended with {status}"}
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


# Steps, each in a child


def start(directory: Path) -> dict[str, Any]:
    """Open the directory as a node does and read all; `refused`, `damaged` and `recorded` are what was said."""
    try:
        engine = opening.open_directory(str(directory), cache_bytes=1 << 20)
    except StorageError as error:
        return {"refused": str(error), "untouched": True}
    try:
        store = Store(engine, clock=time.time, mode=WideColumnMode())
    except DataCorrupted as error:
        return {"refused": str(error), "untouched": False}
    documents: dict[str, dict[str, list[Any]]] = {}
    damaged: list[str] = []
    for ns in store.namespaces():
        coll = store.collection(ns)
        assert coll is not None
        documents[ns] = {}
        try:
            for raw in coll.documents(engine):
                fields = plain(raw)
                documents[ns][str(fields["_id"])] = [fields.get("ns"), fields.get("v")]
                if coll.by_id(engine, from_python(fields["_id"])) is None:
                    damaged.append(f"{ns}: {fields['_id']} is in no index")
        except DataCorrupted as error:
            damaged.append(f"{ns}: {error}")
    try:
        has_log = next(engine.keys(Family.OPLOG, b"", b"\xff" * 8), None) is not None
        resync = LocalState(store).initial_sync or not has_log
    except DataCorrupted as error:
        # A member reads it at its start, and ends.
        return {"refused": str(error), "untouched": False}
    with store.unit(replicated=False) as unit:
        coll = store.create_collection(unit, "fresh.fresh")
        fresh = len(list(coll.documents(engine)))
        for index in coll.indexes.values():
            fresh += len(list(engine.keys(Family.INDEXES, index.prefix, index.end)))
        unit.abort()
    recorded = recorded_losses(directory)
    return {"documents": documents, "damaged": damaged, "recorded": recorded, "fresh": fresh, "resync": resync}


def repaired(directory: Path, kill_after: int | None) -> dict[str, Any]:
    """Repair the directory; the process is killed before the numbered change of its files."""
    if kill_after is not None:
        _kill_after(kill_after)
    try:
        outcome = repair(directory, WideColumnMode())
    except (StorageError, OSError) as error:
        return {"failed": str(error)}
    return {"losses": list(outcome.losses), "notes": list(outcome.notes)}


def _kill_after(count: int) -> None:
    remaining = [count]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            remaining[0] -= 1
            if remaining[0] < 0:
                os.kill(os.getpid(), _KILLED)
            return function(*args, **options)

        return call

    for target, name in (
        (Path, "rename"), (Path, "unlink"), (Path, "mkdir"), (Path, "rmdir"), (os, "replace"), (os, "link"),
        (os, "fsync"), (shutil, "rmtree"), (durable, "write_sealed"),
        (repairs_module, "write_sealed"), (salvage, "copy_readable"), (salvage, "remake_file_list"),
    ):  # fmt: skip
        setattr(target, name, counted(getattr(target, name)))
    original = rocks.RocksEngine

    class Engine(original):  # type: ignore[misc, valid-type]
        def write(self, batch: Any) -> None:
            remaining[0] -= 1
            if remaining[0] < 0:
                os.kill(os.getpid(), _KILLED)
            super().write(batch)

    for module in (opening, salvage):
        setattr(module, "RocksEngine", Engine)  # noqa: B010


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a directory, but for the lock and RocksDB's notes for people."""
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file.name != "mongod.lock" and not file.name.startswith("LOG")
    }


# Judgement


class Violation(Exception):
    """Something was lost, or mixed up, without a word."""


def judge_documents(expected: Expectation, outcome: dict[str, Any], said: bool) -> None:
    """Errors: Violation."""
    documents = outcome["documents"]
    for ns, found in documents.items():
        if ns.startswith("local."):
            continue
        origins = {origin for origin, _ in found.values()}
        if len(origins) > 1 or (origins and not ns.startswith("lost.") and origins != {ns}):
            raise Violation(f"{ns} holds documents of {origins}")
        for identity, (origin, version) in found.items():
            if origin is None and ns.startswith("lost.") and not identity.isdigit():
                # It was the server's own, in the database local.
                continue
            newest = expected.written.get(origin, {}).get(identity, 0)
            if not isinstance(version, int) or version > newest:
                raise Violation(f"{ns}: {identity} has version {version}, which was never written")
    if outcome["fresh"]:
        raise Violation(f"a new collection holds {outcome['fresh']} things")
    if said:
        return
    for ns in set(expected.acknowledged) | set(expected.later) | set(documents):
        if ns.startswith("local."):
            continue
        found, acknowledged = documents.get(ns, {}), expected.acknowledged.get(ns, {})
        later = expected.later.get(ns, {})
        for identity in set(found) | set(acknowledged):
            version = found[identity][1] if identity in found else 0
            if version != acknowledged.get(identity, 0) and version not in later.get(identity, []):
                raise Violation(
                    f"{ns}: {identity} has version {version}, and {acknowledged.get(identity, 0)} was acknowledged "
                    f"(later: {later.get(identity, [])}), without a word"
                )


def run_case(seed: int, tally: Counter[str], kind: str = "") -> str:
    """Run the case of a seed, with damage of the kind if there is one; return its story. Errors: Violation."""
    rng = random.Random(seed)
    story: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        try:
            _run_case(Path(name), rng, tally, story, kind)
        except Violation as violation:
            raise Violation("\n  ".join([*story, str(violation)])) from None
    return "; ".join(story)


def _run_case(path: Path, rng: random.Random, tally: Counter[str], story: list[str], only_kind: str) -> None:
    directory = path / "db"
    seeds = [rng.getrandbits(32) for _ in range(rng.choice((1, 1, 2, 3)))]
    for seed in seeds:
        in_child(partial(write_history, path, seed))
    foreign = partial(_make_foreign, path / "other", seeds, rng.randrange(4))
    expected = read_expectation(path)
    member = (path / "member").exists()
    if rng.random() < 0.2:
        # A directory that has been repaired before, perhaps of something that cost nothing.
        if rng.random() < 0.5:
            (directory / "CURRENT").unlink()
        assert in_child(lambda: repaired(directory, None)).get("losses") == []
        expected.flushed()
        story.append("repaired before")
    (directory / "rollback").mkdir()
    (directory / "rollback" / "a.bson").write_bytes(doc(1))
    if rng.random() < 0.2:
        mark_restored(directory)
    kinds = rng.choices(KINDS, WEIGHTS, k=rng.choice((1, 1, 1, 2)))
    kinds = [only_kind] if only_kind else kinds
    kind = " and ".join(kinds)
    done = [damage(directory, each, rng, foreign) for each in kinds]
    story.append(f"{len(seeds)} lives, member {member}; {'; '.join(done)}")
    is_harmless = set(kinds).issubset(HARMLESS)
    said: list[str] = []
    if rng.random() < 0.8:
        _start_twice(directory, expected, tally, story, said)
        if not said:
            tally[f"{kind}: sound"] += 1
            return
        if is_harmless:
            raise Violation(f"damage of {kind} was refused: {said}")
    killed, kept = KilledRepairs(), _kept_files(directory)
    for _ in range(rng.choice((0, 0, 1, 2))):
        _kill_repair(directory, rng, foreign, expected, story, killed)
    losses = killed.losses
    is_harmless = is_harmless and not killed.has_damaged
    outcome = in_child(lambda: repaired(directory, None))
    story.append(f"a repair: {outcome}")
    if "failed" in outcome:
        tally[f"beyond repair: {outcome['failed'].replace(str(path), '')[:100]}"] += 1
        return
    losses += outcome["losses"]
    tally[f"{kind}: {'lost and said' if losses else 'saved'}"] += 1
    if losses and is_harmless:
        raise Violation(f"damage of {kind} has lost something: {losses}")
    final = in_child(lambda: start(directory))
    story.append(f"a start: {final.get('refused', final.get('damaged'))}")
    if "refused" in final or final["damaged"]:
        raise Violation("the repaired directory is not sound")
    judge_documents(expected, final, bool(losses))
    if member and (losses or _kept_files(directory) != kept) and not final["resync"]:
        raise Violation("a repaired member of a set would vote")


@dataclass
class KilledRepairs:
    """What repairs that were to be killed have said, and whether more was damaged after one."""

    losses: list[str] = field(default_factory=list)
    has_damaged: bool = False


def _kill_repair(
    directory: Path,
    rng: random.Random,
    foreign: Callable[[], Path],
    expected: Expectation,
    story: list[str],
    killed: KilledRepairs,
) -> None:
    kill_after = int(rng.expovariate(1 / 20))
    outcome = in_child(partial(repaired, directory, kill_after), may_be_killed=True)
    story.append(f"a repair killed at {kill_after}: {outcome}")
    if outcome is not None:
        # It ended before; what it said counts.
        killed.losses += outcome.get("losses", [])
        return
    if rng.random() < 0.3:
        kind = rng.choice(("", "journal", "several"))
        story.append(f"then {damage(directory, kind, rng, foreign)}")
        killed.has_damaged = True
    if rng.random() < 0.5:
        attempt = in_child(lambda: start(directory))
        story.append(f"a start after that: {attempt.get('refused', 'accepted')}")
        if "refused" not in attempt:
            judge_documents(expected, attempt, bool(attempt["damaged"] or attempt["recorded"]))


def _kept_files(directory: Path) -> list[str]:
    """Return the names of the damaged files that repairs have replaced; none of them is new if nothing was changed."""
    return sorted(str(file.relative_to(directory)) for file in directory.glob("repair/*/damaged/*"))


def _make_foreign(path: Path, seeds: list[int], difference: int) -> Path:
    """Return another directory, of the same history where `difference` is 0."""
    if not path.exists():
        path.mkdir()
        for seed in seeds:
            in_child(partial(write_history, path, seed ^ difference))
    return path / "db"


def _start_twice(
    directory: Path, expected: Expectation, tally: Counter[str], story: list[str], said: list[str]
) -> None:
    """Start as a supervisor does, again and again; `said` is what the starts say. Errors: Violation."""
    before = contents(directory)
    is_untouched = False
    for _ in range(2):
        outcome = in_child(lambda: start(directory))
        if "refused" in outcome:
            story.append(f"a start: refused: {outcome['refused']}")
            said.append(outcome["refused"])
            if outcome["untouched"]:
                is_untouched = True
                if contents(directory) != before:
                    raise Violation("a refused start has changed files")
            tally["refused starts"] += 1
            continue
        story.append(f"a start: accepted, damaged: {outcome['damaged']}")
        if is_untouched:
            raise Violation("a start was accepted after a refused one")
        judge_documents(expected, outcome, bool(outcome["damaged"]))
        said += outcome["damaged"]
        tally["accepted starts"] += 1


# Planted bugs


def _plant_no_inspection() -> None:
    setattr(inspection.Inspection, "require_sound", lambda _state, _path: None)  # noqa: B010


def _plant_silent_repair() -> None:
    for module, name in ((salvage, "replay_logs"), (salvage, "copy_readable")):
        setattr(module, name, partial(_without_losses, getattr(module, name)))
    setattr(process_repair._LossJournal, "losses", property(lambda _journal: []))  # noqa: B010


def _without_losses(function: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
    function(*arguments, **options)
    return []


def _plant_idents_given_again() -> None:
    setattr(catalog, "highest_ident", lambda _reader: 0)  # noqa: B010
    setattr(process_repair, "recover_catalog", lambda _engine, _note: None)  # noqa: B010


def _plant_adoption_of_anything() -> None:
    setattr(inspection, "_inspect_origin", lambda _path, _state: None)  # noqa: B010


def _plant_logs_of_anyone() -> None:
    def read(*arguments: Any) -> inspection.LogReading:
        reading = read_log(*arguments)
        reading.is_foreign, reading.disorder = False, None
        return reading

    read_log = inspection.read_log
    for module in (inspection, log_replay):
        setattr(module, "read_log", read)  # noqa: B010


PLANTS = {
    "no inspection": _plant_no_inspection,
    "silent repair": _plant_silent_repair,
    "idents given again": _plant_idents_given_again,
    "adoption of anything": _plant_adoption_of_anything,
    "logs of anyone": _plant_logs_of_anyone,
}
"""What the judgement must notice, each within some dozen cases; the last two within some hundred, or with `--kind`."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="that of the first case; the others count on")
    parser.add_argument("--only", type=int, default=None, help="the one case of this seed, with its story")
    parser.add_argument("--kind", choices=KINDS, default="", help="damage one file of this kind in every case")
    parser.add_argument("--plant", choices=PLANTS, default=None)
    options = parser.parse_args()
    if options.plant is not None:
        PLANTS[options.plant]()
    first = random.randrange(1 << 32) if options.seed is None else options.seed
    seeds = [options.only] if options.only is not None else range(first, first + options.cases)
    tally: Counter[str] = Counter()
    violations = 0
    for count, seed in enumerate(seeds, start=1):
        if count % 50 == 0:
            print(f"{count} cases, {violations} violations; the next seed is {seed}", flush=True)
        try:
            story = run_case(seed, tally, options.kind)
            if options.only is not None:
                print(story)
        except Violation as violation:
            violations += 1
            print(f"seed {seed}: {violation}", flush=True)
        except RuntimeError as error:
            violations += 1
            print(f"seed {seed}: {error}", flush=True)
    for name, count in sorted(tally.items()):
        print(f"{count:6} {name}")
    print(f"{len(seeds)} cases from seed {seeds[0]}, {violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
