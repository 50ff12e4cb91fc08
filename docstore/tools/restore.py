"""The `mongorestore` command: restores a dump of `mongodump` to a server."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import IO, Any

import click
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError

import docstore
from docstore.tools.connection import connect, connection_options, default_database, write_concern_options
from docstore.tools.dumped.archive import ArchiveError, ArchiveReader
from docstore.tools.dumped.checks import Selection, check_archive, check_directory, check_log
from docstore.tools.dumped.files import OPLOG, documents_in, is_oplog, open_file
from docstore.tools.dumped.indexes import IndexForm
from docstore.tools.dumped.namespaces import Renaming, selected
from docstore.tools.dumped.origins import Origin, documents_from, origin_in_archive, origins_of, uncompressed
from docstore.tools.dumped.record import Record, describe_task
from docstore.tools.dumped.replay import Replay
from docstore.tools.dumped.restoration import Manner, Restoration
from docstore.tools.dumped.scope import Scope
from docstore.tools.dumped.users import check_version, is_of_users, is_version, restore_users
from docstore.tools.insertion import Counts, Refused
from docstore.tools.terminal import Progress, Terminal, ToolCommand, ToolFailed, failure_of

_FAILURES = (PyMongoError, OSError, EOFError, BSONError, ArchiveError, ValueError, zlib.error)
_READABLE = click.Path(path_type=Path, exists=True)
_GIVEN = click.Path(path_type=Path, exists=True, allow_dash=True)


@click.command("mongorestore", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("--writeConcern", "write_concern", help="Write concern: w, or a document as JSON [majority].")
@click.option("-d", "--db", "database", help="Restore this database alone; the directory may be its own.")
@click.option("-c", "--collection", help="Restore this collection of --db alone, of a file of documents too.")
@click.option(
    "--nsInclude", "included", multiple=True, metavar="PATTERN",
    help="Restore namespaces like this alone, such as shop.* or *.logs; may be given again [all].",
)  # fmt: skip
@click.option("--nsExclude", "excluded", multiple=True, metavar="PATTERN", help="Leave out namespaces like this.")
@click.option("--excludeCollection", "excluded_names", multiple=True, help="Leave out this collection of --db.")
@click.option("--excludeCollectionsWithPrefix", "prefixes", multiple=True, help="Leave out some of --db.")
@click.option("--nsFrom", "sources", multiple=True, metavar="PATTERN", help="Rename namespaces like this.")
@click.option("--nsTo", "targets", multiple=True, metavar="PATTERN", help="What --nsFrom is renamed to.")
@click.option("--restoreDbUsersAndRoles", "with_users", is_flag=True, help="Restore the users and roles of --db too.")
@click.option("--oplogReplay", "replays", is_flag=True, help="Replay what was written during the dump.")
@click.option("--oplogFile", "oplog_file", type=_READABLE, help="File to replay [oplog.bson of the directory].")
@click.option("--oplogLimit", "oplog_limit", metavar="SECONDS[:ORDINAL]", help="Replay what came before this time.")
@click.option("--drop", is_flag=True, help="Drop each collection before it is restored.")
@click.option("--dryRun", "dry_run", is_flag=True, help="Say what would be restored, and do nothing.")
@click.option("--noIndexRestore", "without_indexes", is_flag=True, help="Build no indexes.")
@click.option("--keepIndexVersion", "keeps_version", is_flag=True, help="Build indexes of the versions that they had.")
@click.option(
    "--convertLegacyIndexes", "converts", is_flag=True, help="Leave out what only old servers allow in indexes.",
)  # fmt: skip
@click.option("--objcheck", "checked", is_flag=True, help="Look at each document before it is inserted.")
@click.option("--noOptionsRestore", "without_options", is_flag=True, help="Create collections without options.")
@click.option("--stopOnError", "stops", is_flag=True, help="Stop at the first document that is refused.")
@click.option(
    "--maintainInsertionOrder", "keeps_order", is_flag=True, help="Insert in the order of the dump, and stop."
)
@click.option("--bypassDocumentValidation", "unvalidated", is_flag=True, help="Insert what validators would refuse.")
@click.option(
    "-j", "--numParallelCollections", "parallel", type=click.IntRange(1), default=4, show_default=True,
    help="Collections that are restored at once.",
)  # fmt: skip
@click.option(
    "--numInsertionWorkersPerCollection", "workers", type=click.IntRange(1), default=1, show_default=True,
    help="Batches of a collection that are inserted at once.",
)  # fmt: skip
@click.option(
    "--resumeFile", "resume_file", type=click.Path(path_type=Path, dir_okay=False),
    help="Keep there how far the restore has come, and go on from there.",
)  # fmt: skip
@click.option("--archive", is_flag=False, flag_value="-", metavar="FILE", help="Read an archive [standard input].")
@click.option("--gzip", "compressed", is_flag=True, help="Read compressed files, or a compressed archive.")
@click.option("--dir", "named", type=_READABLE, help="Directory of the dump.")
@click.argument("argument", type=_GIVEN, required=False, metavar="[DIRECTORY | FILE | -]")
@click.version_option(docstore.__version__, message="Docstore mongorestore version %(version)s")
def main(
    named: Path | None,
    argument: Path | None,
    archive: str | None,
    compressed: bool,
    write_concern: str | None,
    resume_file: Path | None,
    **options: Any,
) -> None:
    """Copy a dump, by default the files in ./dump, to a server.

    Documents whose identifiers are there already are left as they are, and counted as failed.
    """
    if sum(location is not None for location in (named, argument, archive)) > 1:
        raise click.UsageError("a dump is in one place: --dir, the argument or --archive")
    root = named or argument or Path("dump")
    dump = _Dump(
        root=root, archive=archive, compressed=compressed, replay=_replay_of(options, root, archive, compressed)
    )
    parallel, is_dry = options.pop("parallel"), options.pop("dry_run")
    manner, scope = _manner(options), _scope(options)
    terminal = Terminal(quiet=options["quiet"])
    try:
        with connect(**options, **write_concern_options(write_concern)) as client, ExitStack() as stack:
            scope = scope.limited_to(default_database(client))
            if dump.replay is not None:
                scope.require_whole(manner)
            record = None
            if resume_file is not None and not is_dry:
                record = Record(resume_file, describe_task(client, root, archive))
                stack.callback(record.close)
            restoration = Restoration(client, manner, terminal, record)
            if is_dry:
                _tell(dump, scope, terminal, manner)
            else:
                _carry_out(dump, scope, restoration, parallel)
    except _FAILURES as error:
        raise failure_of(error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dump:
    """The dump to restore, and the log to replay."""

    root: Path
    archive: str | None
    compressed: bool
    replay: _Log | None


@dataclass(frozen=True, slots=True)
class _Log:
    """The log to replay, that of the archive if `path` is missing, and the time at which to stop."""

    path: Path | None
    limit: Timestamp | None


def _carry_out(dump: _Dump, scope: Scope, restoration: Restoration, parallel: int) -> None:
    """Restore, and report the counts. Errors: SystemExit, after the counts have been reported."""
    failure: ToolFailed | None = None
    refused = Counts()
    try:
        if dump.replay is not None and dump.replay.path is not None:
            check_log(dump.replay.path)
        if dump.archive is not None:
            _restore_from(dump.archive, dump, scope, restoration)
        else:
            _restore_directory(dump, scope, restoration, parallel)
        if dump.replay is not None and dump.replay.path is not None:
            path = dump.replay.path
            with open_file(path, "rb", compressed=path.suffix == ".gz") as file:
                _replay(file, dump.replay.limit, restoration)
        restoration.build_indexes()
        if restoration.record is not None:
            restoration.record.remove()
    except Refused as error:
        failure, refused = error, error.counts
    except ToolFailed as error:
        failure = error
    except _FAILURES as error:
        failure = failure_of(error)
    if failure is not None:
        failure.show()
    counts = restoration.counts + refused
    restoration.terminal.say(
        f"{counts.done} document(s) restored successfully. {counts.failed} document(s) failed to restore."
    )
    if failure is not None:
        raise SystemExit(1)


def _restore_from(archive: str, dump: _Dump, scope: Scope, restoration: Restoration) -> None:
    """Restore an archive, and replay its log on request."""
    with ExitStack() as stack:
        if archive != "-" and Path(archive).is_file():
            # A stream cannot be read twice: its errors are reported when everything before them is restored.
            check_archive(Path(archive), compressed=dump.compressed)
        file = stack.enter_context(_opened(archive, compressed=dump.compressed))
        if dump.replay is None or dump.replay.path is not None:
            _restore_archive(ArchiveReader(file), scope, restoration, None)
            return
        log = stack.enter_context(TemporaryFile())
        _restore_archive(ArchiveReader(file), scope, restoration, log)
        log.seek(0)
        _replay(log, dump.replay.limit, restoration)


def _tell(dump: _Dump, scope: Scope, terminal: Terminal, manner: Manner) -> None:
    """Report what a restore would do (dry run)."""
    if dump.archive is not None:
        with _opened(dump.archive, compressed=dump.compressed) as file:
            origins = [origin_in_archive(description) for description in ArchiveReader(file).described]
    else:
        origins = origins_of(dump.root, scope.database, scope.collection, compressed=dump.compressed)
    for origin in filter(scope.takes, origins):
        terminal.say(f"would restore {origin.namespace} as {manner.rename(origin.namespace)}")
    terminal.say("dry run completed")


def _restore_directory(dump: _Dump, scope: Scope, restoration: Restoration, parallel: int) -> None:
    dump_origins = origins_of(dump.root, scope.database, scope.collection, compressed=dump.compressed)
    origins = [candidate for candidate in dump_origins if scope.takes(candidate)]
    selection = Selection(
        root=dump.root, database=scope.database, takes=scope.takes, origins=origins,
        with_log=dump.replay is not None, compressed=dump.compressed,
    )  # fmt: skip
    check_directory(selection, restoration.terminal)
    restoration.check_targets(origins)
    if not origins:
        raise ToolFailed(f"no wanted collection below {dump.root}; --gzip is for compressed dumps")
    documents: list[tuple[Origin, list[RawBSONDocument]]] = []
    for origin in (candidate for candidate in origins if _is_apart(candidate) and candidate.documents is not None):
        assert origin.documents is not None
        with documents_from(origin.documents, 0, compressed=dump.compressed) as stored_documents:
            documents.append((origin, list(stored_documents)))
    _restore_users(documents, scope, restoration)
    stopped = Event()
    with restoration.terminal.progress() as progress, ThreadPoolExecutor(parallel, "collection") as pool:
        tasks = [
            pool.submit(_restore_one, candidate, restoration, progress, stopped, compressed=dump.compressed)
            for candidate in origins
            if not _is_apart(candidate)
        ]
        try:
            for task in as_completed(tasks):
                task.result()
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


def _restore_one(
    origin: Origin, restoration: Restoration, progress: Progress, stopped: Event, *, compressed: bool
) -> None:
    with restoration.begin(origin) as filling:
        if origin.documents is None:
            return
        progress.begin(filling.namespace, None if compressed or filling.skipped else origin.size)

        def reached(count: int) -> None:
            if stopped.is_set():
                raise ToolFailed("another collection could not be restored")
            progress.reach(filling.namespace, count)

        with documents_from(origin.documents, filling.skipped, compressed=compressed) as documents:
            filling.insert(documents, reached)
        filling.finish()
        progress.end(filling.namespace)


def _restore_archive(reader: ArchiveReader, scope: Scope, restoration: Restoration, log: IO[bytes] | None) -> None:
    """Restore the collections of an archive. Their documents alternate, so all are open until each has ended.

    An oplog among them goes to `log` on request. Errors: ToolFailed if the archive has none.
    """
    has_log = any(is_oplog(description.database, description.collection) for description in reader.described)
    if has_log and log is None:
        restoration.terminal.say("leaving out the oplog of the archive: --oplogReplay replays it")
    described = map(origin_in_archive, reader.described)
    origins = {origin.documents_namespace: origin for origin in described if scope.takes(origin)}
    restoration.check_targets(list(origins.values()))
    if not origins:
        raise ToolFailed("there is no wanted collection in the archive")
    user_documents: dict[str, list[RawBSONDocument]] = {
        name: [] for name, origin in origins.items() if _is_apart(origin)
    }
    with restoration.terminal.progress() as progress, ExitStack() as stack:
        fillings = {
            name: stack.enter_context(restoration.begin(origin))
            for name, origin in origins.items()
            if not _is_apart(origin)
        }
        remaining_skips = {name: filling.skipped for name, filling in fillings.items()}
        for filling in fillings.values():
            progress.begin(filling.namespace)
        for segment in reader.segments():
            name = f"{segment.database}.{segment.collection}"
            if is_oplog(segment.database, segment.collection):
                has_log = True
                if log is not None:
                    log.writelines(document.raw for document in segment.documents)
            elif name in user_documents:
                user_documents[name] += segment.documents
            elif name in fillings:
                filling, skipped = fillings[name], min(remaining_skips[name], len(segment.documents))
                remaining_skips[name] -= skipped
                filling.insert(segment.documents[skipped:], partial(progress.reach, filling.namespace))
                if segment.is_last:
                    filling.finish()
    if log is not None and not has_log:
        raise ToolFailed("the archive has no oplog to replay")
    _restore_users([(origins[name], documents) for name, documents in user_documents.items()], scope, restoration)


def _is_apart(origin: Origin) -> bool:
    """True if it holds users or roles, or their format version."""
    namespace = origin.database, origin.collection
    return is_of_users(*namespace) or is_version(*namespace)


def _restore_users(
    documents: list[tuple[Origin, list[RawBSONDocument]]], scope: Scope, restoration: Restoration
) -> None:
    for origin, records in documents:
        if is_version(origin.database, origin.collection):
            check_version(records)
    for origin, records in documents:
        if is_of_users(origin.database, origin.collection):
            database = scope.database if origin.collection.startswith("$") else None
            drop = restoration.manner.drop
            count = restore_users(restoration.client, origin.collection, records, database, drop=drop)
            restoration.terminal.say(f"restored {count} document(s) of {origin.namespace}")


def _replay(file: IO[bytes], limit: Timestamp | None, restoration: Restoration) -> None:
    replay = Replay(restoration.client, restoration.indexes, unvalidated=restoration.manner.unvalidated)
    count = replay.run(documents_in(file), limit)
    restoration.terminal.say(f"applied {count} oplog entries")
    if replay.stopped:
        restoration.terminal.say(
            "the rest of the oplog is not applied: what the collections hold of its time, from the dump, stays"
        )


@contextmanager
def _opened(name: str, *, compressed: bool) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        file = sys.stdin.buffer if name == "-" else stack.enter_context(Path(name).open("rb"))
        yield stack.enter_context(uncompressed(file)) if compressed else file


def _replay_of(options: dict[str, Any], root: Path, archive: str | None, compressed: bool) -> _Log | None:
    """Return the log to replay according to the options. Errors: click.UsageError."""
    replays, file, limit = options.pop("replays"), options.pop("oplog_file"), options.pop("oplog_limit")
    if not replays:
        if file is not None or limit is not None:
            raise click.UsageError("--oplogFile and --oplogLimit need --oplogReplay")
        return None
    until = None if limit is None else _timestamp(limit)
    if file is None and archive is not None:
        return _Log(None, until)
    path = file or root / f"{OPLOG}.bson{'.gz' if compressed else ''}"
    if not path.is_file():
        raise click.UsageError(f"there is no oplog to replay: {path} is no file")
    return _Log(path, until)


def _timestamp(text: str) -> Timestamp:
    seconds, _, ordinal = text.partition(":")
    try:
        return Timestamp(int(seconds), int(ordinal or "0"))
    except ValueError as error:
        raise click.UsageError("--oplogLimit is SECONDS or SECONDS:ORDINAL") from error


def _manner(options: dict[str, Any]) -> Manner:
    """Return the manner of the restore according to the options. Errors: click.UsageError."""
    stops, keeps_order = options.pop("stops"), options.pop("keeps_order")
    sources = options.pop("sources")
    try:
        rename = Renaming(sources, options.pop("targets"))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    manner = Manner(
        drop=options.pop("drop"),
        with_indexes=not options.pop("without_indexes"),
        with_options=not options.pop("without_options"),
        in_order=stops or keeps_order,
        unvalidated=options.pop("unvalidated"),
        checked=options.pop("checked"),
        index_form=IndexForm(keeps_version=options.pop("keeps_version"), converts=options.pop("converts")),
        workers=options.pop("workers"),
        rename=rename,
        renames=bool(sources),
    )
    if manner.in_order and manner.workers > 1:
        raise click.UsageError("--stopOnError and --maintainInsertionOrder are for one insertion worker")
    return manner


def _scope(options: dict[str, Any]) -> Scope:
    included, excluded = options.pop("included"), options.pop("excluded")
    return Scope(
        database=options.pop("database"),
        collection=options.pop("collection"),
        namespaces=selected(included, excluded),
        has_patterns=bool(included or excluded),
        with_users=options.pop("with_users"),
        excluded=options.pop("excluded_names"),
        excluded_prefixes=options.pop("prefixes"),
    )
