"""The `bsondump` command: a file of documents as extended JSON."""

from __future__ import annotations

from typing import IO

import click
from bson.errors import BSONError

import docstore
from docstore.tools.files import as_json, documents_in


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--outFile", "output", type=click.File("w", encoding="utf-8"), default="-", help="File to write to [-].")
@click.option("--pretty", is_flag=True, help="Give each field a line of its own.")
@click.argument("source", type=click.File("rb"), default="-", metavar="[FILE]")
@click.version_option(docstore.__version__, message="Docstore bsondump version %(version)s")
def main(output: IO[str], pretty: bool, source: IO[bytes]) -> None:
    """Print each document of a BSON file, by default of the standard input, as a line of extended JSON (canonical)."""
    count = 0
    try:
        for document in documents_in(source):
            output.write(as_json(document, indent=1 if pretty else None) + "\n")
            count += 1
    except BSONError as error:
        raise click.ClickException(f"after {count} documents: {error}") from error
    click.echo(f"{count} objects found", err=True)
