"""The `mongoexport` command: a collection as text, extended JSON or CSV."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

import docstore
from docstore.tools.connection import connect, connection_options, default_database, read_preference_options
from docstore.tools.terminal import Progress, Terminal, ToolCommand, ToolFailed, failure_of, text_output
from docstore.tools.text.extended_json import EXACT, document_option
from docstore.tools.text.writing import Format, field_list, output_to, projection_of

_TOLD_EVERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of documents: the collection, the filter and the order."""

    database: str | None
    collection: str
    query: str | None
    query_file: Path | None
    sort: str | None
    skip: int
    limit: int
    assert_exists: bool
    in_natural_order: bool


@click.command("mongoexport", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("--readPreference", "read_preference", help="Member to read from: a mode, or a document as JSON.")
@click.option("-d", "--db", "database", help="Database of the collection.")
@click.option("-c", "--collection", required=True, help="Collection to export.")
@click.option("-q", "--query", help="Export the documents that match this filter, extended JSON.")
@click.option("--queryFile", "query_file", type=click.Path(path_type=Path, exists=True), help="File with the filter.")
@click.option("--sort", help="Order of the documents, as JSON.")
@click.option("--skip", type=click.IntRange(0), default=0, help="Leave out as many documents first.")
@click.option("--limit", type=click.IntRange(0), default=0, help="Export as many documents at most.")
@click.option("--forceTableScan", "in_natural_order", is_flag=True, help="Read the collection without any index.")
@click.option("--assertExists", "assert_exists", is_flag=True, help="Fail where there is no such collection.")
@click.option("-f", "--fields", help="Fields to export, separated by commas; CSV needs them.")
@click.option(
    "--fieldFile", "field_file", type=click.Path(path_type=Path, exists=True), help="File with a field a line."
)
@click.option("--type", "kind", type=click.Choice(["json", "csv"]), default="json", show_default=True)
@click.option(
    "--jsonFormat",
    "json_format",
    type=click.Choice(["canonical", "relaxed"]),
    default="relaxed",
    show_default=True,
    help="Canonical names the type of every value.",
)
@click.option("--jsonArray", "is_array", is_flag=True, help="Write one array instead of a document a line.")
@click.option("--pretty", is_flag=True, help="Give each field a line of its own.")
@click.option("--noHeaderLine", "no_header", is_flag=True, help="Leave out the line with the fields of CSV.")
@click.option("-o", "--out", type=click.Path(path_type=Path, allow_dash=True, dir_okay=False), help="File to write to.")
@click.version_option(docstore.__version__, message="Docstore mongoexport version %(version)s")
def main(
    kind: str,
    json_format: str,
    is_array: bool,
    pretty: bool,
    no_header: bool,
    fields: str | None,
    field_file: Path | None,
    out: Path | None,
    **options: Any,
) -> None:
    """Write the documents of a collection as text, by default a line of extended JSON each to the standard output."""
    field_names = field_list(fields, field_file)
    if kind == "csv" and not field_names:
        raise click.UsageError("CSV needs --fields or --fieldFile")
    if kind == "csv" and (is_array or pretty):
        raise click.UsageError("--jsonArray and --pretty are for JSON")
    if kind == "json" and no_header:
        raise click.UsageError("--noHeaderLine is for CSV")
    selection = Selection(**{name: options.pop(name) for name in Selection.__slots__})
    if selection.query is not None and selection.query_file is not None:
        raise click.UsageError("there is one filter: --query or --queryFile")
    written = Format(
        kind=kind,
        relaxed=json_format == "relaxed",
        is_array=is_array,
        pretty=pretty,
        fields=field_names,
        has_header=not no_header,
    )
    read_preference = read_preference_options(options.pop("read_preference"))
    terminal = Terminal(quiet=options["quiet"])
    try:
        with connect(**options, **read_preference) as client:
            database = selection.database or default_database(client) or "test"
            source = client.get_database(database).with_options(EXACT).get_collection(selection.collection)
            count = _export(source, selection, written, out, terminal)
    except PyMongoError as error:
        raise failure_of(error) from error
    except OSError as error:
        raise ToolFailed(f"cannot write: {error}") from error
    terminal.say(f"exported {count} record{'' if count == 1 else 's'}")


def _export(
    source: Collection[dict[str, Any]], selection: Selection, written: Format, out: Path | None, terminal: Terminal
) -> int:
    name = selection.collection
    if selection.assert_exists and name not in source.database.list_collection_names(filter={"name": name}):
        raise ToolFailed(f"collection '{name}' does not exist")
    to_stdout = out is None or str(out) == "-"
    opened: AbstractContextManager[IO[str]]
    opened = text_output() if to_stdout else _open(out)
    with opened as file, terminal.progress() as progress:
        return _write(source, selection, written, file, progress)


def _open(out: Path | None) -> IO[str]:
    assert out is not None
    out.parent.mkdir(parents=True, exist_ok=True)
    return out.open("w", encoding="utf-8", newline="")


def _write(
    source: Collection[dict[str, Any]], selection: Selection, written: Format, file: IO[str], progress: Progress
) -> int:
    hint = [("$natural", 1)] if selection.in_natural_order else None
    cursor = source.find(_filter(selection), projection_of(written.fields) or None, hint=hint)
    if selection.sort is not None:
        cursor = cursor.sort(list(document_option(selection.sort, "--sort").items()))
    cursor = cursor.skip(selection.skip).limit(selection.limit)
    output = output_to(file, written)
    namespace, count = f"{source.database.name}.{source.name}", 0
    progress.begin(namespace)
    output.begin()
    for document in cursor:
        output.write(document)
        count += 1
        if not count % _TOLD_EVERY:
            progress.reach(namespace, count)
    output.end()
    return count


def _filter(selection: Selection) -> dict[str, Any]:
    if selection.query_file is not None:
        return document_option(selection.query_file.read_text("utf-8"), "--queryFile")
    return {} if selection.query is None else document_option(selection.query, "--query")
