"""Creation of a backup: checkpoints of all sets, the point that they lead to, their files and logs.

The order matters. Checkpoints are opened first. The point is a time at or after the end of each, at which no more
writes happen. The logs are read before the files, because they may be truncated. Only then are the files copied, into
a directory that becomes a backup when all of it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pymongo.errors import AutoReconnect, PyMongoError

import docstore
from docstore.backup.access import Access, Client
from docstore.backup.comparison import recorded
from docstore.backup.durable import write_durably
from docstore.backup.failures import Diverged
from docstore.backup.manifest import OPLOG, Manifest, Part, Span, StoredFile, timestamp_text
from docstore.backup.moment import Point, SpanReading, latest, reach, wait_for_member
from docstore.backup.repository import Repository
from docstore.backup.sources import Source, member_of, owner_of, sources_of
from docstore.backup.transfer import Checkpoint, Earlier, Transfer
from docstore.optime import OpTime, unpack_timestamp
from docstore.tools.terminal import Progress, Terminal, ToolFailed

_ATTEMPTS = 3
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of a backup. `full`: share nothing with earlier backups. `oplog_only`: continue the log of the
    backup before, without files. `compare`: record the contents of collections. `parallel`: files at once of each
    set.
    """

    full: bool = False
    oplog_only: bool = False
    compare: bool = False
    parallel: int = 4


class Creation:
    """One backup on its way into a repository."""

    def __init__(self, access: Access, repository: Repository, wishes: Wishes, terminal: Terminal) -> None:
        self._access = access
        self._repository = repository
        self._wishes = wishes
        self._terminal = terminal
        self._inventory = repository.inventory()
        self._earlier = self._inventory.manifests
        self.damaged = list(self._inventory.damaged.values())
        """Errors of the repository: damaged backups, and damaged files that this one would have shared."""

    def run(self) -> Manifest:
        """Create the backup; try again if a member fails or rolls back.

        Errors: ToolFailed, OSError, PyMongoError.
        """
        kind, sources = sources_of(self._access)
        for source in sources if self._access.verbose else ():
            self._terminal.say(f"{source.name}: {source.set_name or 'no set'} of {', '.join(source.addresses)}")
        if self._earlier and self._earlier[-1].kind != kind:
            raise ToolFailed(f"the repository holds backups of a {self._earlier[-1].kind}, and this is a {kind}")
        if self._wishes.oplog_only:
            self._check_parts(kind, sources)
        if self._wishes.compare and kind == "node":
            raise ToolFailed("a node that is in no set does not tell its past: there is nothing to compare with")
        for attempt in range(_ATTEMPTS):
            try:
                return self._attempt(kind, sources)
            except (Diverged, AutoReconnect) as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                self._terminal.say(f"once more: {error}")
        raise AssertionError("the last attempt ends above")

    def _check_parts(self, kind: str, sources: tuple[Source, ...]) -> None:
        """Raise ToolFailed if the logs do not continue those of the backup before."""
        if kind == "node" or not self._earlier:
            raise ToolFailed("a backup of the oplog alone follows another one, of a set or a cluster")
        before, now = {part.name for part in self._earlier[-1].parts}, {source.name for source in sources}
        if before != now:
            raise ToolFailed(
                f"since {self._earlier[-1].name} {', '.join(sorted(before ^ now))} was added or removed: a backup with "
                "files comes first"
            )

    def _attempt(self, kind: str, sources: tuple[Source, ...]) -> Manifest:
        name, directory = self._repository.begin()
        began = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            with ExitStack() as stack:
                pool = stack.enter_context(ThreadPoolExecutor(len(sources), "set"))
                makings = [_PartMaking(self, source, directory, stack) for source in sources]
                _all(pool, makings, _PartMaking.open)
                point = None if kind == "node" else self._point(pool, makings, sources)
                progress = stack.enter_context(self._terminal.progress())
                parts = _all(pool, makings, lambda making: making.make(point, progress))
            ended = datetime.now(UTC).isoformat(timespec="seconds")
            shares = any(making.shares for making in makings)
            content = "oplog" if self._wishes.oplog_only else "incremental" if shares else "full"
            manifest = Manifest(
                name=name, kind=kind, content=content, began=began, ended=ended,
                point=None if point is None else point.time, version=docstore.__version__, parts=tuple(parts),
            )  # fmt: skip
            self._repository.finish(directory, manifest)
        except BaseException:
            self._repository.discard(directory)
            raise
        return manifest

    def _point(self, pool: ThreadPoolExecutor, makings: list[_PartMaking], sources: tuple[Source, ...]) -> Point:
        """Return a time that all sets have passed, at or after the end of every checkpoint and of every log of that
        moment.
        """
        ends = _all(pool, sources, lambda source: latest(self._access, source))
        cluster_times = [*(end.cluster_time for end in ends), *_all(pool, makings, _PartMaking.cluster_time)]
        untils = [unpack_timestamp(making.until.timestamp) for making in makings if making.until is not None]
        point = Point(
            max([*(end.time for end in ends), *untils]),
            max(cluster_times, key=lambda cluster_time: cluster_time["clusterTime"]),
        )
        _all(pool, sources, lambda source: reach(self._access, source, point))
        self._terminal.say(f"the state of {timestamp_text(point.time)}")
        return point

    # Requests of the parts

    @property
    def access(self) -> Access:
        return self._access

    @property
    def wishes(self) -> Wishes:
        return self._wishes

    @property
    def terminal(self) -> Terminal:
        return self._terminal

    def before(self, name: str, *, with_files: bool) -> tuple[Part, Path] | None:
        """Return the newest part of this name, and its directory."""
        for manifest in reversed(self._earlier):
            part = manifest.part(name)
            if part is not None and (manifest.has_files or not with_files):
                return part, self._repository.directory(manifest, part)
        return None


class _PartMaking:
    """One part: opened, then backed up. Its checkpoint is closed with the stack."""

    def __init__(self, creation: Creation, source: Source, directory: Path, stack: ExitStack) -> None:
        self._creation = creation
        self._source = source
        self._directory = directory / source.directory
        self._stack = stack
        self._member = ""
        self._owner = ""
        self._checkpoint: Checkpoint | None = None
        self.until: OpTime | None = None
        self.shares = False
        """True if there were files to share."""

    def open(self) -> None:
        """Choose a member, and let it create a checkpoint. Errors: ToolFailed, PyMongoError."""
        creation, source = self._creation, self._source
        before = creation.before(source.name, with_files=True)
        self._member = member_of(creation.access, source, None if before is None else before[0].member)
        client = self._client
        self._check_owner(owner_of(client))
        self._directory.mkdir()
        if creation.wishes.oplog_only:
            return
        checkpoint = self._checkpoint = Checkpoint.opened(client)
        self._stack.callback(_close, client, checkpoint)
        self.until = checkpoint.until
        if (checkpoint.set_id or checkpoint.database) != self._owner:
            raise Diverged(f"{self._member} has become another server")

    def _check_owner(self, owner: str) -> None:
        """Record the owner of the data. Errors: ToolFailed if it differs from that of earlier backups."""
        before = self._creation.before(self._source.name, with_files=False)
        if before is not None and before[0].owner != owner:
            raise ToolFailed(
                f"the repository holds backups of another deployment: {self._source.name} is not the same one"
            )
        self._owner = owner

    @property
    def _client(self) -> Client:
        return self._creation.access.member(self._member)

    def cluster_time(self) -> Mapping[str, Any]:
        """Return the member's cluster time, no earlier than the end of its checkpoint."""
        cluster_time: Mapping[str, Any] = self._client.admin.command("hello")["$clusterTime"]
        return cluster_time

    def make(self, point: Point | None, progress: Progress) -> Part:
        """Errors: ToolFailed, OSError, PyMongoError."""
        creation, source, checkpoint = self._creation, self._source, self._checkpoint
        before = creation.before(source.name, with_files=False)
        span = None
        if point is not None:
            wait_for_member(self._client, point)
            span = self._span(point, before, progress)
        part = Part(
            name=source.name,
            directory=source.directory,
            member=self._member,
            set_name=source.set_name,
            set_id=None if checkpoint is None else checkpoint.set_id,
            database="" if checkpoint is None else checkpoint.database,
            files=(),
            after=None if checkpoint is None else checkpoint.after,
            until=None if checkpoint is None else checkpoint.until,
            span=span,
            collections=None,
        )
        if checkpoint is None:
            assert before is not None, "a backup of the oplog follows another one"
            return replace(part, set_id=self._owner, database=before[0].database)
        if creation.wishes.compare and point is not None:
            part = replace(part, collections=recorded(self._client, point.time))
        files = self._files(checkpoint, progress)
        return replace(part, files=files)

    def _files(self, checkpoint: Checkpoint, progress: Progress) -> tuple[StoredFile, ...]:
        before = None if self._creation.wishes.full else self._creation.before(self._source.name, with_files=True)
        earlier = None
        if before is not None and before[0].database == checkpoint.database:
            earlier = Earlier.of(before[1], before[0])
        transfer = Transfer(self._client, checkpoint, self._directory, earlier, progress)
        with ThreadPoolExecutor(self._creation.wishes.parallel, "file") as pool:
            files = transfer.run(pool)
        self.shares = earlier is not None
        for damage in transfer.damaged:
            self._creation.terminal.say(f"copied anew: {damage}")
        self._creation.damaged += transfer.damaged
        self._creation.terminal.say(
            f"{self._source.name}: {len(files)} files of {self._member}, {transfer.shared} of them shared"
        )
        return files

    def _span(self, point: Point, before: tuple[Part, Path] | None, progress: Progress) -> Span:
        checkpoint = self._checkpoint
        ends = () if checkpoint is None else tuple(filter(None, (checkpoint.after, checkpoint.until)))
        last = before[0].span.end if before is not None and before[0].span is not None else None
        starts = [last] if last is not None else []
        reading = SpanReading(self._client, min([*starts, *ends]), point, ends)
        if not reading.begins and last is not None:
            if checkpoint is None:
                raise ToolFailed(f"{self._source.name}: the oplog does not reach back to the backup before")
            self._creation.terminal.say(
                f"{self._source.name}: the oplog does not reach back to the backup before: times between are lost"
            )
            reading = SpanReading(self._client, min(ends), point, ends)
        label = f"{self._source.directory}/{OPLOG}"
        progress.begin(label)
        size, sha256 = write_durably(
            self._directory / OPLOG, reading.batches(lambda count: progress.reach(label, count))
        )
        progress.end(label)
        return Span(start=reading.start, end=reading.end, entries=reading.entries, size=size, sha256=sha256)


def _close(client: Client, checkpoint: Checkpoint) -> None:
    # Without this command the server closes the checkpoint by itself.
    with suppress(PyMongoError):
        client.admin.command("backupClose", checkpoint.identity)


def _all(pool: ThreadPoolExecutor, items: Sequence[_T], work: Callable[[_T], _R]) -> list[_R]:
    """Run something for each item concurrently and wait for all; raises the first error."""
    tasks = [pool.submit(work, item) for item in items]
    for task in tasks:
        task.exception()
    return [task.result() for task in tasks]
