"""The `mongodump` command: databases of a server as files in a directory, or as one archive.

Of a set or a cluster all collections are dumped as of one cluster time: each is read by a cursor at that time, and
all cursors are opened before any is read further, so that the server needs its history only briefly. The time is no
earlier than any write acknowledged before the dump. With the log, everything is read from one member.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event
from typing import IO, Any, cast

import click
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.cursor import RawBatchCursor
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

import docstore
from docstore.tools.connection import (
    RAW,
    Client,
    Deployment,
    connection_options,
    default_database,
    read_preference_options,
)
from docstore.tools.dumped.families import FamilyReading
from docstore.tools.dumped.oplog import LogReading, latest_of
from docstore.tools.dumped.sessions import KeptSessions
from docstore.tools.dumped.sources import Choice, check_names, sources_of
from docstore.tools.dumped.targets import ArchiveTarget, DirectoryTarget, Source, StreamTarget, Target
from docstore.tools.read_concerns import at_time
from docstore.tools.terminal import Progress, Terminal, ToolCommand, ToolFailed, failure_of
from docstore.tools.text.extended_json import document_option

_LENGTH = struct.Struct("<i")
_ATTEMPTS = 5
_AGREEMENT_MS = 60_000
"""The time for a majority to replicate the writes acknowledged before the dump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The destination of a dump, a directory, an archive or standard output, and the compression."""

    root: Path
    archive: str | None
    compressed: bool
    to_stdout: bool


@click.command("mongodump", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("--readPreference", "read_preference", help="Member to read from: a mode, or a document as JSON.")
@click.option("-d", "--db", "database", help="Dump this database alone [all but local and config].")
@click.option("-c", "--collection", help="Dump this collection of --db alone [all].")
@click.option("-q", "--query", help="Dump the documents of --collection that match this filter, extended JSON.")
@click.option("--queryFile", "query_file", type=click.Path(path_type=Path, exists=True), help="File with the filter.")
@click.option("--excludeCollection", "excluded", multiple=True, help="Leave out this collection of --db.")
@click.option("--excludeCollectionsWithPrefix", "excluded_prefixes", multiple=True, help="Leave out some of --db.")
@click.option("--viewsAsCollections", "views_as_collections", is_flag=True, help="Dump the documents of views alone.")
@click.option("--dumpDbUsersAndRoles", "with_users", is_flag=True, help="Dump the users and roles of --db too.")
@click.option("--oplog", "with_oplog", is_flag=True, help="Dump what is written meanwhile too, of all databases.")
@click.option("--forceTableScan", "in_natural_order", is_flag=True, help="Read collections without any index.")
@click.option("--noSnapshot", "without_snapshot", is_flag=True, help="Read each collection as it is then.")
@click.option(
    "-j", "--numParallelCollections", "parallel", type=click.IntRange(1), default=4, show_default=True,
    help="Collections that are read at once.",
)  # fmt: skip
@click.option(
    "-o", "--out", "root", type=click.Path(path_type=Path, file_okay=False), help="Directory to write to; - is stdout.",
)  # fmt: skip
@click.option(
    "--archive", is_flag=False, flag_value="-", metavar="FILE",
    help="Write one archive, without a name to the standard output.",
)  # fmt: skip
@click.option("--gzip", "compressed", is_flag=True, help="Compress each file, or the archive.")
@click.version_option(docstore.__version__, message="Docstore mongodump version %(version)s")
def main(
    query: str | None,
    query_file: Path | None,
    with_oplog: bool,
    without_snapshot: bool,
    parallel: int,
    root: Path | None,
    archive: str | None,
    compressed: bool,
    **options: Any,
) -> None:
    """Copy collections of a server to files."""
    if query is not None and query_file is not None:
        raise click.UsageError("there is one filter: --query or --queryFile")
    if archive is not None and root is not None:
        raise click.UsageError("a dump goes to one place: --out or --archive")
    text = query_file.read_text("utf-8") if query_file is not None else query
    names = (
        "database", "collection", "excluded", "excluded_prefixes", "views_as_collections", "with_users",
        "in_natural_order",
    )  # fmt: skip
    choice = Choice(
        query=None if text is None else document_option(text, "--query"),
        **{name: options.pop(name) for name in names},
    )
    to_stdout = root is not None and str(root) == "-"
    output = Output(root=root or Path("dump"), archive=archive, compressed=compressed, to_stdout=to_stdout)
    read_preference = read_preference_options(options.pop("read_preference"))
    terminal = Terminal(quiet=options["quiet"])
    try:
        deployment = Deployment(**options, **read_preference)
        with deployment.client() as client:
            choice = choice.limited_to(default_database(client))
            _check(choice, output, with_oplog=with_oplog)
            if with_oplog:
                _dump_with_log(deployment, client, choice, output, terminal, parallel)
            else:
                _dump(client, choice, output, terminal, parallel, snapshot=not without_snapshot)
    except PyMongoError as error:
        raise failure_of(error) from error
    except OSError as error:
        raise ToolFailed(f"cannot write: {error}") from error


def _check(choice: Choice, output: Output, *, with_oplog: bool) -> None:
    """Errors: click.UsageError."""
    choice.check()
    if output.to_stdout and choice.collection is None:
        raise click.UsageError("the standard output holds one collection: --out - needs --collection")
    if with_oplog and choice.database is not None:
        raise click.UsageError("--oplog is for dumps of all databases")


def _dump(client: Client, choice: Choice, output: Output, terminal: Terminal, parallel: int, *, snapshot: bool) -> None:
    """Dump collections as of one cluster time if the servers have one, else as they are."""
    hello = client.admin.command("hello")
    at_one_time = snapshot and ("setName" in hello or hello.get("msg") == "isdbgrid")
    with ExitStack() as stack:
        sessions = stack.enter_context(KeptSessions(client))
        for attempt in range(_ATTEMPTS):
            sources = sources_of(client, choice, terminal)
            with_documents = [source for source in sources if source.has_documents]
            time = _time_of(client, with_documents) if at_one_time else None
            readings = _readings(client, with_documents, time, terminal, sessions, stack)
            if time is None:
                break
            try:
                # A snapshot may hold another collection under a name that was listed: check that it is the same.
                check_names(client, sources, at_one_time=True)
                break
            except ToolFailed as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                terminal.say(f"once more: {error.message}")
        target = stack.enter_context(_target(output, terminal))
        target.begin(sources, server=str(client.server_info()["version"]), parallel=parallel, with_oplog=False)
        _dump_all(readings, target, terminal, parallel)
        if time is None:
            check_names(client, sources, at_one_time=False)


def _dump_with_log(
    deployment: Deployment, client: Client, choice: Choice, output: Output, terminal: Terminal, parallel: int
) -> None:
    """Dump collections as they are, and the log of that period, all from one member."""
    hello = client.admin.command("hello", read_preference=client.read_preference)
    if "setName" not in hello:
        raise ToolFailed("--oplog needs a member of a replica set")
    latest = latest_of(client, hello, terminal)
    with ExitStack() as stack:
        member = client
        if client.topology_description.topology_type_name != "Single":
            member = stack.enter_context(deployment.member(hello["me"]))
        log = LogReading(member, latest, terminal)
        sources = sources_of(member, choice, terminal)
        with_documents = [source for source in sources if source.has_documents]
        sessions = stack.enter_context(KeptSessions(member))
        readings = _readings(member, with_documents, None, terminal, sessions, stack)
        target = stack.enter_context(_target(output, terminal))
        target.begin(sources, server=str(member.server_info()["version"]), parallel=parallel, with_oplog=True)
        _dump_all(readings, target, terminal, parallel)
        with target.open_oplog() as file:
            count = log.write(file)
        terminal.say(f"dumped {count} oplog entries of {hello['me']}")


@contextmanager
def _target(output: Output, terminal: Terminal) -> Iterator[Target]:
    """Open the target of a dump. It is marked complete only if the body ends without an error."""
    with ExitStack() as stack:
        target: Target
        if output.archive is not None:
            target = ArchiveTarget(stack.enter_context(_opened(output.archive)), compressed=output.compressed)
        elif output.to_stdout:
            target = StreamTarget(sys.stdout.buffer, compressed=output.compressed)
        else:
            target = DirectoryTarget(output.root, compressed=output.compressed)
        try:
            yield target
            target.close()
        except BaseException:
            target.abandon()
            raise


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdout.buffer
        return
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    with Path(name).open("wb") as file:
        yield file


def _time_of(client: Client, sources: list[Source]) -> Timestamp | None:
    """Return a cluster time no earlier than any acknowledged write, which every member can serve; None if the
    collections have no history. Errors: PyMongoError.
    """
    collections = [source for source in sources if not source.is_family]
    # A router hears here of the times of all shards.
    reply = client.admin.command("listDatabases", nameOnly=True)
    time: Timestamp = reply["operationTime"] if "operationTime" in reply else reply["$clusterTime"]["clusterTime"]
    # Some servers do not tell the past of capped collections.
    for source in sorted(collections, key=lambda each: bool(each.metadata["options"].get("capped"))):
        try:
            client.get_database(source.database).command(
                {
                    "find": source.collection,
                    "limit": 1,
                    "readConcern": at_time(time).document,
                    "maxTimeMS": _AGREEMENT_MS,
                },
                read_preference=client.read_preference,
            )
        except OperationFailure:
            if not source.metadata["options"].get("capped"):
                raise
            return None
        return time
    return None


_Readings = list["tuple[Source, _Reading | FamilyReading]"]


def _readings(
    client: Client,
    sources: list[Source],
    time: Timestamp | None,
    terminal: Terminal,
    sessions: KeptSessions,
    stack: ExitStack,
) -> _Readings:
    return [(source, _reading(client, source, time, terminal, sessions, stack)) for source in sources]


def _dump_all(readings: _Readings, target: Target, terminal: Terminal, parallel: int) -> None:
    stopped = Event()
    with ExitStack() as stack:
        progress = stack.enter_context(terminal.progress())
        pool = stack.enter_context(ThreadPoolExecutor(parallel, "collection"))
        tasks = [pool.submit(_dump_one, *reading, target, terminal, progress, stopped) for reading in readings]
        try:
            for task in as_completed(tasks):
                task.result()
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


class _Reading:
    """The documents of a collection; for a dump as of one time the cursor is open already."""

    def __init__(
        self, client: Client, source: Source, time: Timestamp | None, terminal: Terminal, sessions: KeptSessions
    ) -> None:
        self.source = source
        self._session = sessions.new() if time is not None else None
        database = client.get_database(source.database)
        self._collection = database.get_collection(source.collection, codec_options=RAW)
        self._found = self._open(None if time is None else at_time(time))
        self._first = b""
        if time is None:
            return
        try:
            self._first = cast(bytes, next(self._found, b""))
        except OperationFailure:
            # Some servers tell the past of all collections but capped ones.
            if not source.metadata["options"].get("capped"):
                raise
            terminal.say(f"{source.database}.{source.collection} is capped: it is read as it is then")
            self._found = self._open(None)

    def _open(self, concern: ReadConcern | None) -> RawBatchCursor[RawBSONDocument]:
        # A cursor may wait longer for its turn than servers keep an idle one.
        collection = self._collection.with_options(read_concern=concern)
        return collection.find_raw_batches(
            self.source.query,
            session=self._session,
            no_cursor_timeout=not self.source.of_view,
            hint=[("$natural", 1)] if self.source.in_natural_order else None,
        )

    def close(self) -> None:
        self._found.close()

    def total(self) -> int | None:
        return None if self.source.query else self._collection.estimated_document_count()

    def batches(self) -> Iterator[bytes]:
        yield from chain([self._first], cast(Iterator[bytes], self._found))


def _reading(
    client: Client,
    source: Source,
    time: Timestamp | None,
    terminal: Terminal,
    sessions: KeptSessions,
    stack: ExitStack,
) -> _Reading | FamilyReading:
    """Return a reader of a collection or column family; the stack closes it."""
    reading: _Reading | FamilyReading
    if source.is_family:
        reading = FamilyReading(client, source.database, source.collection)
    else:
        reading = _Reading(client, source, time, terminal, sessions)
    stack.callback(reading.close)
    return reading


def _dump_one(
    source: Source,
    reading: _Reading | FamilyReading,
    target: Target,
    terminal: Terminal,
    progress: Progress,
    stopped: Event,
) -> None:
    name, count = f"{source.database}.{source.collection}", 0
    progress.begin(name, reading.total())
    with target.open(source) as sink:
        for batch in reading.batches():
            if stopped.is_set():
                raise ToolFailed("another collection could not be dumped")
            sink.write(batch)
            count += _documents_in(batch)
            progress.reach(name, count)
    progress.end(name)
    terminal.say(f"done dumping {name} ({count} document{'' if count == 1 else 's'})")


def _documents_in(batch: bytes) -> int:
    count = offset = 0
    while offset < len(batch):
        offset += _LENGTH.unpack_from(batch, offset)[0]
        count += 1
    return count
