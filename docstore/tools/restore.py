"""The `mongorestore` command: what `mongodump` wrote, into a server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database
from pymongo.errors import BulkWriteError, CollectionInvalid, OperationFailure, PyMongoError

import docstore
from docstore.tools.connection import Client, connect, connection_options
from docstore.tools.files import collections_of, documents_file, documents_in, metadata_file, open_file, read_metadata

_BATCH = 1000
_NAMESPACE_EXISTS = 48


@click.command(context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option(
    "--nsInclude",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Restore namespaces like this alone, such as shop.* or *.logs; may be given again [all].",
)
@click.option("--drop", is_flag=True, help="Drop each collection before it is restored.")
@click.option("--gzip", "compressed", is_flag=True, help="Read compressed files.")
@click.argument(
    "root", type=click.Path(path_type=Path, exists=True, file_okay=False), default="dump", metavar="[DIRECTORY]"
)
@click.version_option(docstore.__version__, message="Docstore mongorestore version %(version)s")
def main(patterns: tuple[str, ...], drop: bool, compressed: bool, root: Path, **where: Any) -> None:
    """Copy the files of a dump, by default those in ./dump, to a server.

    Documents whose identifiers are there already are left as they are, and counted as failed.
    """
    namespaces = [each for each in collections_of(root, compressed=compressed) if _is_wanted(patterns, ".".join(each))]
    if not namespaces:
        raise click.ClickException(f"no metadata of a wanted collection below {root}; --gzip is for compressed dumps")
    restored = failed = 0
    try:
        with connect(**where) as client:
            for database, collection in namespaces:
                done, refused = _restore(client, root, database, collection, drop=drop, compressed=compressed)
                restored, failed = restored + done, failed + refused
    except (PyMongoError, OSError, BSONError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{restored} document(s) restored successfully. {failed} document(s) failed to restore.", err=True)
    if failed:
        raise SystemExit(1)


def _is_wanted(patterns: tuple[str, ...], namespace: str) -> bool:
    forms = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    return not forms or any(re.fullmatch(form, namespace, re.DOTALL) for form in forms)


def _restore(
    client: Client, root: Path, name: str, collection: str, *, drop: bool, compressed: bool
) -> tuple[int, int]:
    """Restore a collection or a view; gives (documents restored, documents refused)."""
    database = client.get_database(name)
    metadata = read_metadata(metadata_file(root, name, collection, compressed=compressed), compressed=compressed)
    if drop:
        database.drop_collection(collection)
    _create(database, collection, metadata.get("options", {}))
    if metadata.get("type") == "view":
        return 0, 0
    path = documents_file(root, name, collection, compressed=compressed)
    with open_file(path, "rb", compressed=compressed) as file:
        counts = _insert(database, collection, documents_in(file))
    indexes = [each for each in metadata.get("indexes", ()) if each["name"] != "_id_"]
    if indexes:
        database.command("createIndexes", collection, indexes=indexes)
    click.echo(f"finished restoring {name}.{collection} ({counts[0]} documents, {counts[1]} failures)", err=True)
    return counts


def _create(database: Database[RawBSONDocument], collection: str, options: dict[str, Any]) -> None:
    """Create a collection as it was; one that is there keeps its own options."""
    try:
        database.command("create", collection, **options)
    except CollectionInvalid:
        return
    except OperationFailure as error:
        if error.code != _NAMESPACE_EXISTS:
            raise


def _insert(
    database: Database[RawBSONDocument], collection: str, documents: Iterator[RawBSONDocument]
) -> tuple[int, int]:
    restored = failed = 0
    for batch in _batches(documents):
        try:
            database[collection].insert_many(batch, ordered=False)
            restored += len(batch)
        except BulkWriteError as error:
            refused = error.details["writeErrors"]
            restored, failed = restored + len(batch) - len(refused), failed + len(refused)
            for each in refused[:10]:
                click.echo(f"continuing through error: {each['errmsg']}", err=True)
    return restored, failed


def _batches(documents: Iterable[RawBSONDocument]) -> Iterator[list[RawBSONDocument]]:
    iterator = iter(documents)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
