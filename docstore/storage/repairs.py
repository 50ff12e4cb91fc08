"""The journal of a data directory's repairs: the phase of each, and the losses that it reports.

Each repair has its own directory, `repair/1` and so on. It holds the `journal`, the `damaged` files that were replaced
(kept until an operator removes them) and, until it is done, working files. A phase is recorded on disk before it
begins, so an interrupted repair can resume. The journal also has the marker and the synced mark of the database that
the directory holds, or will hold: a resumed repair knows them even if the two files are lost meanwhile.

* `filling`: `fresh` is being filled; the directory's own files are untouched. Restarted.
* `moving out`: the directory's files are being moved to `damaged`. Continued.
* `moving in`: the files of `fresh` are being moved into place. Continued.
* `checking`: collections and indexes are compared with the records. Restarted.
* `done`.

A directory without damage is only checked. Its repair begins with that, so there is nothing but the journal to remove
afterwards. The record of a repair that lost something stays until an operator removes it, and until then each repair
and each start says what was lost: whoever ran the repair may have been killed before saying it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path

from docstore.storage.directory import UNKNOWN, Provenance, provenance_of, read_provenance
from docstore.storage.durable import Unreadable, read_sealed, sync_directory, write_sealed
from docstore.storage.engine import StorageError

DIRECTORY = "repair"
_JOURNAL = "journal"
_EARLIER = ("repair.new", "repair.done")


class Phase(Enum):
    FILLING = "filling"
    MOVING_OUT = "moving out"
    MOVING_IN = "moving in"
    CHECKING = "checking"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Loss:
    """Data that a repair could not save: in `family`, keys `[start, end]`; without a family, anywhere."""

    text: str
    family: str = ""
    start: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair, as recorded in its journal. `directory`: its own; `is_resumed`: an earlier process began it.

    `recorded`: the provenance of the database that the repaired directory holds, or holds once its files are replaced.
    """

    directory: Path
    phase: Phase
    losses: tuple[Loss, ...] = ()
    reason: str = ""
    moved: tuple[str, ...] = field(default=())
    """The files concerned by the moving phases."""
    is_resumed: bool = False
    recorded: Provenance = UNKNOWN

    @property
    def fresh(self) -> Path:
        return self.directory / "fresh"

    @property
    def work(self) -> Path:
        return self.directory / "work"

    @property
    def damaged(self) -> Path:
        return self.directory / "damaged"

    def enter(self, phase: Phase, losses: tuple[Loss, ...] | None = None, moved: tuple[str, ...] = ()) -> Repair:
        """Record the next phase. Errors: OSError."""
        following = replace(self, phase=phase, losses=self.losses if losses is None else losses, moved=moved)
        content = {
            "phase": phase.value,
            "reason": self.reason,
            "moved": list(moved),
            "losses": [asdict(loss) for loss in following.losses],
            "known": self.recorded.document(),
        }
        write_sealed(self.directory / _JOURNAL, content)
        return following


def begin_repair(path: Path, reason: str, replaced: Repair | None = None) -> Repair:
    """Record the start of a repair of `path`. `replaced`: the unfinished one that it takes over from.

    Errors: OSError, StorageError.
    """
    provenance, _ = read_provenance(path)
    losses: tuple[Loss, ...] = ()
    if replaced is not None:
        provenance, losses = provenance.completed(replaced.recorded), replaced.losses
    parent = path / DIRECTORY
    parent.mkdir(exist_ok=True)
    number = max((int(entry.name) for entry in parent.iterdir() if entry.name.isdigit()), default=0) + 1
    directory = parent / str(number)
    directory.mkdir()
    sync_directory(parent)
    sync_directory(path)
    first = Phase.FILLING if reason else Phase.CHECKING
    return Repair(directory, first, losses, reason, recorded=provenance).enter(first)


def unfinished_repair(path: Path) -> Repair | None:
    """Return the unfinished repair of `path`, or None. Errors: StorageError if the journal is unreadable."""
    for name in _EARLIER:
        if (path / name).exists():
            raise StorageError(
                f"a repair of {path} by an earlier version was not finished: finish it with that version"
            )
    for directory in reversed(_records(path)):
        repair = read_repair(directory)
        if repair is not None:
            return None if repair.phase is Phase.DONE else repair
        # That repair never began, so the one before it may still be unfinished.
    return None


def _records(path: Path) -> list[Path]:
    """Return the directories of the repairs of `path`, the newest last."""
    parent = path / DIRECTORY
    numbers = sorted(int(entry.name) for entry in parent.iterdir() if entry.name.isdigit()) if parent.is_dir() else []
    return [parent / str(number) for number in numbers]


def recorded_losses(path: Path) -> list[str]:
    """Return what the ended repairs of `path` that are on record could not save."""
    lines: list[str] = []
    for directory in _records(path):
        try:
            repair = read_repair(directory)
        except StorageError:
            lines.append(f"the repair in {directory} has no readable journal, so what it has lost is not known")
            continue
        if repair is not None and repair.phase is Phase.DONE:
            lines += [f"{loss.text} (lost by the repair in {directory})" for loss in repair.losses]
    return lines


def discard_repair(repair: Repair) -> None:
    """Remove a repair that has found nothing; only the journal and an empty directory are left of one.

    It stays if it holds files of the database, and if an earlier repair's journal is unreadable: that one would be the
    newest, and the directory be refused. The journal says `done` before it goes: whether it is still there after a
    crash, or the empty directory alone, the repair is over, and the one before it had ended when this one began.
    """
    repair.enter(Phase.DONE)
    if any(entry.name != _JOURNAL for entry in repair.directory.iterdir()):
        return
    number = int(repair.directory.name)
    try:
        for directory in _records(repair.directory.parent.parent):
            if int(directory.name) < number:
                read_repair(directory)
    except StorageError:
        return
    (repair.directory / _JOURNAL).unlink()
    repair.directory.rmdir()


def read_repair(directory: Path) -> Repair | None:
    """Return the state in a repair's journal; None without one, when nothing was done yet.

    Errors: StorageError.
    """
    try:
        content = read_sealed(directory / _JOURNAL)
        if content is None:
            if all(entry.name == f"{_JOURNAL}.new" for entry in directory.iterdir()):
                return None
            raise Unreadable(f"the file {_JOURNAL} is missing")
    except Unreadable as error:
        raise StorageError(
            f"{error}, so how far the repair in {directory} was cannot be told. All files are kept there and in the "
            "directory above: restore a backup to another directory, or start an empty member of the set. Only where "
            f"that repair is known to have ended may {directory} be removed instead"
        ) from None
    losses = tuple(Loss(**loss) for loss in content["losses"])
    # Journals of earlier versions lack it.
    recorded = provenance_of(content["known"]) if "known" in content else UNKNOWN
    return Repair(
        directory, Phase(content["phase"]), losses, content["reason"], tuple(content["moved"]), True, recorded
    )


def refuse_unfinished(path: Path) -> None:
    """Reject a directory with an unfinished repair. Errors: StorageError."""
    repair = unfinished_repair(path)
    if repair is not None:
        raise StorageError(
            f"a repair of {path} was not finished (phase: {repair.phase.value}): start once more with --repair"
        )
