"""The `mongofiles` command: files in GridFS, the two collections that drivers keep large files in."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click
from gridfs import GridFSBucket, GridOut
from gridfs.errors import GridFSError, NoFile
from pymongo.errors import PyMongoError

import docstore
from docstore.tools.connection import (
    connect,
    connection_options,
    default_database,
    read_preference_options,
    write_concern_options,
)
from docstore.tools.terminal import Terminal, ToolCommand, ToolFailed, failure_of
from docstore.tools.text.extended_json import EXACT, MALFORMED, document_of

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a bucket, and the options for local ones: `local` is a path, or - for the standard ones."""

    bucket: GridFSBucket
    terminal: Terminal
    local: str | None
    replace: bool
    kind: str | None
    regex_options: str = ""

    def list(self, arguments: Sequence[str]) -> None:
        """Print names and lengths, of files whose names begin like the argument."""
        self._print(f"^{re.escape(_at_most_one(arguments))}")

    def search(self, arguments: Sequence[str]) -> None:
        """Print names and lengths, of files with the argument in their names."""
        self._print(re.escape(_only(arguments)))

    def put(self, arguments: Sequence[str]) -> None:
        for name in self._names(arguments):
            self._add(name, None)

    def put_id(self, arguments: Sequence[str]) -> None:
        name, identity = _pair(arguments)
        self._add(name, identity)

    def get(self, arguments: Sequence[str]) -> None:
        for name in self._names(arguments):
            try:
                stream = self.bucket.open_download_stream_by_name(name)
            except NoFile as error:
                raise ToolFailed(f"no such file with name: {name}") from error
            with stream:
                self._write(stream, name)

    def get_id(self, arguments: Sequence[str]) -> None:
        with self.bucket.open_download_stream(_identity(_only(arguments))) as stream:
            self._write(stream, self._name_inside(stream))

    def get_regex(self, arguments: Sequence[str]) -> None:
        if self.local is not None:
            raise click.UsageError("--local names one file: it does not go with get_regex")
        # Of each name the newest: it is written last.
        form = {"$regex": _only(arguments), "$options": self.regex_options}
        for grid_file in self.bucket.find({"filename": form}).sort("uploadDate", 1):
            self._write(grid_file, self._name_inside(grid_file))

    def delete(self, arguments: Sequence[str]) -> None:
        name = _only(arguments)
        self._delete(name)
        self.terminal.say(f"successfully deleted all instances of '{name}' from GridFS")

    def delete_id(self, arguments: Sequence[str]) -> None:
        self.bucket.delete(_identity(_only(arguments)))
        self.terminal.say(f"successfully deleted file with _id {arguments[0]} from GridFS")

    def _names(self, arguments: Sequence[str]) -> Sequence[str]:
        if not arguments:
            raise click.UsageError("a file name is needed")
        if self.local is not None and len(arguments) > 1:
            raise click.UsageError("--local names one file: it does not go with several")
        return arguments

    def _print(self, pattern: str) -> None:
        for grid_file in self.bucket.find({"filename": {"$regex": pattern}}):
            click.echo(f"{grid_file.filename}\t{grid_file.length}")

    def _add(self, name: str, identity: Any) -> None:
        metadata = None if self.kind is None else {"contentType": self.kind}
        with self._source(name) as source:
            self.terminal.say(f"adding gridFile: {name}")
            # Old files of the name go once the new one is there, but for one with its `_id`.
            old = [grid_file._id for grid_file in self.bucket.find({"filename": name})] if self.replace else []
            if identity is None:
                self.bucket.upload_from_stream(name, source, metadata=metadata)
            else:
                if identity in old:
                    old.remove(identity)
                    self.bucket.delete(identity)
                self.bucket.upload_from_stream_with_id(identity, name, source, metadata=metadata)
            for old_identity in old:
                self.bucket.delete(old_identity)
        self.terminal.say(f"added gridFile: {name}")

    def _delete(self, name: str) -> None:
        for grid_file in self.bucket.find({"filename": name}):
            self.bucket.delete(grid_file._id)

    @contextmanager
    def _source(self, name: str) -> Iterator[IO[bytes]]:
        if self.local == "-":
            yield sys.stdin.buffer
            return
        with Path(self.local or name).open("rb") as file:
            yield file

    def _name_inside(self, grid_file: GridOut) -> str:
        """Return the name that a file has on the server, by which nothing outside the directory is written."""
        name = str(grid_file.filename)
        path = Path(name)
        if self.local is None and (path.is_absolute() or ".." in path.parts):
            raise ToolFailed(f"the name {name!r} leads out of this directory: say with --local where the file goes")
        return name

    def _write(self, grid_file: GridOut, name: str) -> None:
        if self.local == "-":
            _copy(grid_file, sys.stdout.buffer)
            return
        path = Path(self.local or name)
        with path.open("wb") as file:
            _copy(grid_file, file)
        self.terminal.say(f"finished writing to {path}")


_COMMANDS: dict[str, Callable[[Files, Sequence[str]], None]] = {
    "list": Files.list,
    "search": Files.search,
    "put": Files.put,
    "put_id": Files.put_id,
    "get": Files.get,
    "get_id": Files.get_id,
    "get_regex": Files.get_regex,
    "delete": Files.delete,
    "delete_id": Files.delete_id,
}


@click.command("mongofiles", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("--readPreference", "read_preference", help="Member to read from: a mode, or a document as JSON.")
@click.option("--writeConcern", "write_concern", help="Write concern: w, or a document as JSON [majority].")
@click.option("-d", "--db", "database", help="Database of the files [test].")
@click.option("--prefix", default="fs", show_default=True, help="What the names of the collections begin with.")
@click.option("-l", "--local", metavar="FILE", help="Local file, - for the standard input or output [as in GridFS].")
@click.option("-r", "--replace", is_flag=True, help="Put in the place of files with the same name.")
@click.option("-t", "--type", "kind", help="Content type of a file that is put, in its metadata.")
@click.option("--regexOptions", "regex_options", default="", metavar="LETTERS", help="Of get_regex: i, m, s, x.")
@click.argument("command", type=click.Choice(list(_COMMANDS)))
@click.argument("arguments", nargs=-1, metavar="[NAME | ID | NAME ID]...")
@click.version_option(docstore.__version__, message="Docstore mongofiles version %(version)s")
def main(
    database: str | None,
    prefix: str,
    local: str | None,
    replace: bool,
    kind: str | None,
    regex_options: str,
    command: str,
    arguments: tuple[str, ...],
    **options: Any,
) -> None:
    """List, search, put, get and delete files in GridFS. Identifiers are extended JSON."""
    if (replace or kind is not None) and command not in ("put", "put_id"):
        raise click.UsageError("--replace and --type are for put and put_id")
    if regex_options and command != "get_regex":
        raise click.UsageError("--regexOptions is for get_regex")
    terminal = Terminal(quiet=options["quiet"])
    operation_options = read_preference_options(options.pop("read_preference"))
    operation_options |= write_concern_options(options.pop("write_concern"))
    try:
        with connect(**options, **operation_options) as client:
            target_database = client.get_database(database or default_database(client) or "test").with_options(EXACT)
            files = Files(GridFSBucket(target_database, prefix), terminal, local, replace, kind, regex_options)
            _COMMANDS[command](files, arguments)
    except (PyMongoError, GridFSError, OSError) as error:
        raise failure_of(error) from error


def _only(arguments: Sequence[str]) -> str:
    if len(arguments) != 1:
        raise click.UsageError("there is one name, or one identifier")
    return arguments[0]


def _at_most_one(arguments: Sequence[str]) -> str:
    return _only(arguments) if arguments else ""


def _pair(arguments: Sequence[str]) -> tuple[str, Any]:
    if len(arguments) != 2:
        raise click.UsageError("there are a name and an identifier")
    return arguments[0], _identity(arguments[1])


def _identity(text: str) -> Any:
    """The value that an identifier is as extended JSON."""
    try:
        return document_of(f'{{"_id": {text}}}')["_id"]
    except MALFORMED as error:
        raise click.UsageError(f"the identifier is no extended JSON: {error}") from error


def _copy(grid_file: GridOut, file: IO[bytes]) -> None:
    while piece := grid_file.read(_PIECE):
        file.write(piece)
    file.flush()
