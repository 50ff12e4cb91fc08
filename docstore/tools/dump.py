"""The `mongodump` command: databases of a server as files in a directory."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import click
from bson.json_util import loads
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database
from pymongo.errors import PyMongoError

import docstore
from docstore.tools.connection import RAW, connect, connection_options
from docstore.tools.files import EXACT, documents_file, metadata_file, open_file, write_metadata

_OWN = ("local", "config")
"""Databases of the server itself; a dump has them where they are named."""


@click.command(context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("-d", "--db", "database", help="Dump this database alone [all but local and config].")
@click.option("-c", "--collection", help="Dump this collection of --db alone [all].")
@click.option("-q", "--query", help="Dump the documents of --collection that match this filter, extended JSON.")
@click.option(
    "-o",
    "--out",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    default="dump",
    show_default=True,
    help="Directory to write to.",
)
@click.option("--gzip", "compressed", is_flag=True, help="Compress each file.")
@click.version_option(docstore.__version__, message="Docstore mongodump version %(version)s")
def main(
    database: str | None, collection: str | None, query: str | None, root: Path, compressed: bool, **where: Any
) -> None:
    """Copy collections of a server to files."""
    if collection is not None and database is None:
        raise click.UsageError("--collection needs --db")
    if query is not None and collection is None:
        raise click.UsageError("--query needs --collection")
    condition = {} if query is None else _filter(query)
    try:
        with connect(**where) as client:
            names = [database] if database is not None else client.list_database_names()
            for name in names:
                if database is None and name in _OWN:
                    continue
                _dump_database(client.get_database(name), collection, condition, root, compressed)
    except PyMongoError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write: {error}") from error


def _dump_database(
    database: Database[RawBSONDocument], collection: str | None, condition: dict[str, Any], root: Path, compressed: bool
) -> None:
    described = _described(database, {} if collection is None else {"name": collection})
    if collection is not None and not described:
        raise click.ClickException(f"there is no collection {database.name}.{collection}")
    for each in described:
        if collection is None and each["name"].startswith("system.") and each["name"] != "system.js":
            continue
        _dump_collection(database, each, condition, root, compressed)


def _described(database: Database[RawBSONDocument], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """What `listCollections` says of the collections, by name."""
    listed = database.with_options(EXACT).list_collections(filter=wanted)
    return sorted((dict(each) for each in listed), key=itemgetter("name"))


def _dump_collection(
    database: Database[RawBSONDocument],
    described: dict[str, Any],
    condition: dict[str, Any],
    root: Path,
    compressed: bool,
) -> None:
    name, kind = described["name"], described.get("type", "collection")
    (root / database.name).mkdir(parents=True, exist_ok=True)
    metadata = {"indexes": [], "collectionName": name, "type": kind, "options": described.get("options", {})}
    count = 0
    if kind != "view":
        source = database.get_collection(name, codec_options=RAW)
        metadata["indexes"] = [dict(each) for each in source.with_options(EXACT).list_indexes()]
        with open_file(
            documents_file(root, database.name, name, compressed=compressed), "wb", compressed=compressed
        ) as file:
            for document in source.find(condition):
                file.write(document.raw)
                count += 1
    write_metadata(metadata_file(root, database.name, name, compressed=compressed), metadata, compressed=compressed)
    click.echo(f"done dumping {database.name}.{name} ({count} documents)", err=True)


def _filter(text: str) -> dict[str, Any]:
    try:
        condition = loads(text)
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"--query is no extended JSON: {error}") from error
    if not isinstance(condition, dict):
        raise click.UsageError("--query is no document")
    return condition
