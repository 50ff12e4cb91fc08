"""Open backups: checkpoints below the data directory, whose files clients read in pieces.

* A checkpoint is one state of the node, and its files do not change.
* It shares files with the database (hard links), so it costs the space of those that the database deletes meanwhile.
* It is removed when the client closes it, after `IDLE_SECONDS` without a read, and at the next start of the process.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bson.objectid import ObjectId

from docstore.commands.access.need import Need, on_cluster, on_database, on_namespace
from docstore.commands.declaration import Privilege
from docstore.commands.declaration import Resource as Held
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.optime import OpTime
from docstore.replicaset.replicaset import ReplicaSet
from docstore.security.privileges import ALL_DATABASES
from docstore.storage import StorageError
from docstore.storage.restored import identity_of

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context
    from docstore.node.node import DataNode

LOG = component("STORAGE")
IDLE_SECONDS = 600.0
MOST_OPEN = 8
MOST_BYTES = 8 << 20
"""Maximum bytes of file content in a reply."""
_DIRECTORY = "backup.open"
_ATTEMPTS = 3

PRIVILEGE = Privilege("appendOplogNote", Held.CLUSTER)
_NEEDS = (
    *on_cluster(PRIVILEGE.action),
    Need("find", ALL_DATABASES),
    *on_namespace("admin.system.users", "find"),
    *on_database("local", "find"),
    *on_database("config", "find"),
)


def needs(_context: Context, _arguments: Arguments) -> tuple[Need, ...]:
    """Return the privileges to read all the data that the files contain; the role `backup` has them."""
    return _NEEDS


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A file of a checkpoint; `modified` in nanoseconds since 1970.

    An `.sst` file of the same name, size and time in another checkpoint of the same database has the same content.
    """

    name: str
    size: int
    modified: int


@dataclass(slots=True)
class OpenBackup:
    """An open checkpoint; its oplog ends between the entries `after` and `until`, both included."""

    identity: ObjectId
    directory: Path
    files: Mapping[str, BackupFile]
    after: OpTime
    until: OpTime
    expiry: asyncio.TimerHandle | None = None


class OpenBackups:
    """The open backups of one node. Start it before commands are served, and stop it at the end."""

    def __init__(self, node: DataNode) -> None:
        self._node = node
        self._directory = node.settings.dbpath / _DIRECTORY
        self._open: dict[ObjectId, OpenBackup] = {}
        self._opening = 0

    async def start(self) -> None:
        """Remove checkpoints of an earlier process."""
        if self._node.settings.engine != "inMemory" and self._directory.exists():
            await self._in_thread(self._directory)

    async def stop(self) -> None:
        for identity in list(self._open):
            await self.close(identity)

    async def open(self) -> OpenBackup:
        """Create a checkpoint. Errors: NotPrimaryOrSecondary, OperationFailed if none can be made, ExceededLimit."""
        if len(self._open) + self._opening >= MOST_OPEN:
            raise CommandError(Code.OperationFailed, f"{MOST_OPEN} backups are open: close one of them first")
        self._opening += 1
        try:
            for _ in range(_ATTEMPTS):
                backup = await self._make()
                if backup is not None:
                    self._open[backup.identity] = backup
                    self._touch(backup)
                    LOG.info("Backup opened", backupId=str(backup.identity), files=len(backup.files))
                    return backup
        finally:
            self._opening -= 1
        raise CommandError(Code.OperationFailed, "the node has rolled back while a checkpoint was made")

    async def _make(self) -> OpenBackup | None:
        """Create a checkpoint; return None if a rollback happened meanwhile, since it may hold undone writes."""
        before = self._log()
        identity = ObjectId()
        path = self._directory / str(identity)
        try:
            files = await asyncio.get_running_loop().run_in_executor(None, self._checkpoint, path)
        except (StorageError, OSError) as error:
            await self._in_thread(path)
            raise CommandError(Code.OperationFailed, str(error)) from error
        after = self._log()
        if before[0] != after[0]:
            await self._in_thread(path)
            return None
        return OpenBackup(identity, path, files, before[1], after[1])

    def _log(self) -> tuple[int, OpTime]:
        """Return (number of the last rollback, end of the oplog). Errors: NotPrimaryOrSecondary."""
        replication = self._node.replication
        last = self._node.store.last_optime
        if not isinstance(replication, ReplicaSet):
            return 0, last
        if not replication.membership.state.member_state.readable:
            raise CommandError(Code.NotPrimaryOrSecondary, "node is not in primary or recovering state")
        return replication.membership.local.rollback_id, last

    def database_identity(self) -> str:
        """Return an identifier of the node's database that no other has. Errors: OperationFailed."""
        if self._node.settings.engine == "inMemory":
            raise CommandError(Code.OperationFailed, "a node that keeps nothing on disk cannot be backed up")
        try:
            return identity_of(self._node.settings.dbpath)
        except OSError as error:
            raise CommandError(Code.OperationFailed, f"the database has no identity: {error.strerror}") from error

    def _checkpoint(self, path: Path) -> dict[str, BackupFile]:
        if self._node.settings.engine != "inMemory":
            path.parent.mkdir(exist_ok=True)
        self._node.engine.checkpoint(str(path))
        files = sorted(path.iterdir())
        stats = [(file.name, file.stat()) for file in files]
        return {name: BackupFile(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats}

    async def read(self, identity: ObjectId, name: str, offset: int, length: int) -> bytes:
        """Return bytes of a file; fewer at its end.

        Errors: NoSuchKey for an unknown backup or file, OperationFailed.
        """
        backup = self._find(identity)
        if name not in backup.files:
            raise CommandError(Code.NoSuchKey, f"the backup has no file {name}")
        self._touch(backup)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                None, _read, backup.directory / name, offset, min(length, MOST_BYTES)
            )
        except OSError as error:
            raise CommandError(Code.OperationFailed, f"{name} cannot be read: {error.strerror}") from error

    async def close(self, identity: ObjectId) -> None:
        """Close and remove a backup. Errors: NoSuchKey."""
        backup = self._find(identity)
        del self._open[identity]
        if backup.expiry is not None:
            backup.expiry.cancel()
        await self._in_thread(backup.directory)
        LOG.info("Backup closed", backupId=str(identity))

    def _find(self, identity: ObjectId) -> OpenBackup:
        backup = self._open.get(identity)
        if backup is None:
            raise CommandError(Code.NoSuchKey, f"no backup {identity} is open here")
        return backup

    def _touch(self, backup: OpenBackup) -> None:
        if backup.expiry is not None:
            backup.expiry.cancel()
        backup.expiry = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._expire, backup)

    def _expire(self, backup: OpenBackup) -> None:
        if self._open.pop(backup.identity, None) is not None:
            LOG.warning("Nobody has read from a backup: it is closed", backupId=str(backup.identity))
            asyncio.get_running_loop().run_in_executor(None, _remove, backup.directory)

    async def _in_thread(self, path: Path) -> None:
        await asyncio.get_running_loop().run_in_executor(None, _remove, path)


def _read(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
