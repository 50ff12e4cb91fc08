"""The `mongoimport` command: text, extended JSON or CSV or TSV, into a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import click
from bson import ObjectId, encode
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument
from pymongo import DeleteOne, ReplaceOne, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, PyMongoError

import docstore
from docstore.tools.connection import connect, connection_options, default_database, write_concern_options
from docstore.tools.insertion import Counts, Refused, Workers, batches_of, insert, refusals
from docstore.tools.terminal import Progress, Terminal, ToolCommand, ToolFailed, failure_of, text_input
from docstore.tools.text.extended_json import EXACT
from docstore.tools.text.reading import InputFormat, UnreadableText, field_specifications, read_documents

_BATCH = 1000
_GRACE = ("autoCast", "skipField", "skipRow", "stop")
_MODES = ("insert", "upsert", "merge", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The write of each document."""

    mode: str
    fields: tuple[str, ...]
    """The fields by which upsert, merge and delete find documents."""
    drop: bool
    in_order: bool
    workers: int
    unvalidated: bool


@click.command("mongoimport", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("--writeConcern", "write_concern", help="Write concern: w, or a document as JSON [majority].")
@click.option("-d", "--db", "database", help="Database of the collection.")
@click.option("-c", "--collection", help="Collection to write to [the name of the file].")
@click.option("--file", "named", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="File to read.")
@click.option("--type", "kind", type=click.Choice(["json", "csv", "tsv"]), default="json", show_default=True)
@click.option("--jsonArray", "is_array", is_flag=True, help="The text is one array of documents.")
@click.option("-f", "--fields", help="Fields that the columns hold, separated by commas.")
@click.option(
    "--fieldFile", "field_file", type=click.Path(path_type=Path, exists=True), help="File with a field a line."
)
@click.option("--headerline", is_flag=True, help="The first row names the fields.")
@click.option("--columnsHaveTypes", "has_types", is_flag=True, help="Fields are written like born.date(2006-01-02).")
@click.option(
    "--parseGrace",
    "grace",
    type=click.Choice(_GRACE),
    default="stop",
    show_default=True,
    help="What becomes of values that are none of their column's type.",
)
@click.option("--ignoreBlanks", "ignores_blanks", is_flag=True, help="Leave out fields without text.")
@click.option("--useArrayIndexFields", "has_indexes", is_flag=True, help="Fields like tags.0 are elements of arrays.")
@click.option("--drop", is_flag=True, help="Drop the collection first.")
@click.option("--mode", type=click.Choice(_MODES), help="What to do with each document [insert].")
@click.option("--upsertFields", "upsert_fields", help="Fields by which documents are found, with commas [_id].")
@click.option("--stopOnError", "stops", is_flag=True, help="Stop at the first document that is refused.")
@click.option("--maintainInsertionOrder", "keeps_order", is_flag=True, help="Write in the order of the text, and stop.")
@click.option("-j", "--numInsertionWorkers", "workers", type=click.IntRange(1), default=1, show_default=True)
@click.option("--bypassDocumentValidation", "unvalidated", is_flag=True, help="Write what validators would refuse.")
@click.argument(
    "argument", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False, metavar="[FILE]"
)
@click.version_option(docstore.__version__, message="Docstore mongoimport version %(version)s")
def main(
    database: str | None,
    collection: str | None,
    named: Path | None,
    argument: Path | None,
    write_concern: str | None,
    **options: Any,
) -> None:
    """Write the documents of a text, by default lines of extended JSON from the standard input, to a collection."""
    if named is not None and argument is not None:
        raise click.UsageError("there is one file to read: --file or the argument")
    path = named or argument
    form, writing = _input_format(options), _writing(options)
    if collection is None and path is None:
        raise click.UsageError("the standard input has no name: --collection is needed")
    terminal = Terminal(quiet=options["quiet"])
    concern = write_concern_options(write_concern)
    with connect(**options, **concern) as client:
        target_database = client.get_database(database or default_database(client) or "test")
        target = target_database.get_collection(collection or _stem(path), codec_options=EXACT)
        _import(target, path, form, writing, terminal)


def _import(
    target: Collection[Any], path: Path | None, form: InputFormat, writing: Writing, terminal: Terminal
) -> None:
    """Import the documents. Errors: ToolFailed, after the counts have been reported."""
    # The counts of acknowledged documents before the failure.
    workers = Workers(_action(target, writing, terminal), writing.workers, in_order=writing.in_order)
    counts, failure = Counts(), None
    opened: AbstractContextManager[IO[str]]
    opened = text_input() if path is None else _open(path)
    try:
        with opened as file, terminal.progress() as progress, workers:
            if writing.drop:
                terminal.say(f"dropping: {target.database.name}.{target.name}")
                target.drop()
            try:
                _put_all(workers, _batches(file, form, writing, terminal), progress, target)
            except UnreadableText as error:
                failure = ToolFailed(str(error))
            counts = workers.finish()
    except Refused as error:
        counts, failure = workers.counts + error.counts, error
    except PyMongoError as error:
        counts, failure = workers.counts, failure_of(error)
    if failure is not None:
        failure.show()
    done = "deleted" if writing.mode == "delete" else "imported"
    verb = "delete" if writing.mode == "delete" else "import"
    terminal.say(f"{counts.done} document(s) {done} successfully. {counts.failed} document(s) failed to {verb}.")
    if failure is not None:
        raise SystemExit(1)


def _open(path: Path) -> IO[str]:
    return path.open(encoding="utf-8-sig", newline="")


def _stem(path: Path | None) -> str:
    assert path is not None
    return path.name.partition(".")[0] if path.suffix else path.name


def _put_all(workers: Workers, batches: Iterator[list[Any]], progress: Progress, target: Collection[Any]) -> None:
    name, count = f"{target.database.name}.{target.name}", 0
    progress.begin(name)
    for batch in batches:
        workers.submit(batch)
        count += len(batch)
        progress.reach(name, count)


def _batches(file: IO[str], form: InputFormat, writing: Writing, terminal: Terminal) -> Iterator[list[Any]]:
    """Yield batches. Documents read before an error form a batch of their own, so that they are written. Errors:
    UnreadableText, last.
    """
    documents = read_documents(file, form, terminal.say)
    failures: list[UnreadableText] = []

    def readable() -> Iterator[dict[str, Any]]:
        try:
            yield from documents
        except UnreadableText as error:
            failures.append(error)

    if writing.mode == "insert":
        yield from batches_of(_encoded(readable(), failures))
    else:
        batch: list[Any] = []
        for document in readable():
            batch.append(document)
            if len(batch) == _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch
    if failures:
        raise failures[0]


def _encoded(documents: Iterator[dict[str, Any]], failures: list[UnreadableText]) -> Iterator[RawBSONDocument]:
    """Yield documents as bytes, each with an `_id`."""
    for count, document in enumerate(documents, 1):
        complete_document = document if "_id" in document else {"_id": ObjectId(), **document}
        try:
            encoded = encode(complete_document, codec_options=EXACT)
        except (InvalidDocument, OverflowError, ValueError, TypeError) as error:
            failures.append(UnreadableText(f"error processing document #{count}: {error}"))
            return
        yield RawBSONDocument(encoded)


def _action(target: Collection[Any], writing: Writing, terminal: Terminal) -> Callable[[list[Any]], Counts]:
    if writing.mode == "insert":
        return partial(insert, target, terminal=terminal, in_order=writing.in_order, unvalidated=writing.unvalidated)
    return partial(_change, target, writing, terminal)


def _change(target: Collection[Any], writing: Writing, terminal: Terminal, batch: list[dict[str, Any]]) -> Counts:
    """Upsert, merge or delete by a batch of documents. Errors: Refused, in order."""
    operations = [change for document in batch if (change := _operation(document, writing)) is not None]
    missing = Counts(0, len(batch) - len(operations))
    if missing.failed:
        terminal.say(f"{missing.failed} document(s) have none of the fields {', '.join(writing.fields)}")
        if writing.in_order:
            raise Refused(missing, "a document has none of the fields to find it by")
    if not operations:
        return missing
    try:
        result = target.bulk_write(
            operations, ordered=writing.in_order, bypass_document_validation=writing.unvalidated or None
        )
    except BulkWriteError as error:
        return missing + refusals(error.details, terminal, in_order=writing.in_order)
    done = result.inserted_count + result.modified_count + result.upserted_count + result.deleted_count
    return missing + Counts(done)


def _operation(document: dict[str, Any], writing: Writing) -> Any:
    """Return the write of a document; None for a deletion without a selector."""
    selector = {path: value for path in writing.fields if (value := _value_at(document, path)) is not None}
    if not selector:
        # A document without any of the fields is new.
        if writing.mode == "delete":
            return None
        selector = {"_id": document.get("_id", ObjectId())}
    else:
        selector = {path: selector.get(path) for path in writing.fields}
    if writing.mode == "delete":
        return DeleteOne(selector)
    if writing.mode == "merge":
        return UpdateOne(selector, {"$set": document}, upsert=True) if document else None
    return ReplaceOne(selector, document, upsert=True)


def _value_at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _input_format(options: dict[str, Any]) -> InputFormat:
    """Return the input format of the options. Errors: click.UsageError."""
    kind, headerline = options.pop("kind"), options.pop("headerline")
    text, file = options.pop("fields"), options.pop("field_file")
    form = InputFormat(
        kind=kind,
        fields=field_specifications(text, file),
        **{name: options.pop(name) for name in ("is_array", "has_types", "grace", "ignores_blanks", "has_indexes")},
    )
    if kind == "json" and (headerline or form.fields or form.has_types or form.ignores_blanks or form.has_indexes):
        raise click.UsageError("--fields, --headerline and the options of columns are for CSV and TSV")
    if kind != "json" and form.is_array:
        raise click.UsageError("--jsonArray is for JSON")
    if kind != "json" and bool(form.fields) == headerline:
        raise click.UsageError(f"{kind} needs one of --fields, --fieldFile and --headerline")
    return form


def _writing(options: dict[str, Any]) -> Writing:
    """Return the writing of the options. Errors: click.UsageError."""
    mode, named = options.pop("mode"), options.pop("upsert_fields")
    fields = tuple(name.strip() for name in named.split(",")) if named else ()
    if fields and mode == "insert":
        raise click.UsageError("--upsertFields goes with --mode upsert, merge or delete")
    if not all(fields):
        raise click.UsageError("--upsertFields has an empty name in it")
    stops, keeps_order = options.pop("stops"), options.pop("keeps_order")
    writing = Writing(
        mode=mode or ("upsert" if fields else "insert"),
        fields=fields or ("_id",),
        in_order=stops or keeps_order,
        drop=options.pop("drop"),
        workers=options.pop("workers"),
        unvalidated=options.pop("unvalidated"),
    )
    if writing.in_order and writing.workers > 1:
        raise click.UsageError("--stopOnError and --maintainInsertionOrder are for one insertion worker")
    return writing
