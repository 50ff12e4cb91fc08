"""The `bsondump` command: a file of documents as extended JSON."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

import click
from bson import decode
from bson.errors import BSONError

import docstore
from docstore.tools.dumped.files import documents_in
from docstore.tools.terminal import Terminal, ToolCommand, ToolFailed
from docstore.tools.text.extended_json import EXACT, as_json

_READABLE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("bsondump", cls=ToolCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bsonFile", "named", type=_READABLE, help="File to read.")
@click.option("--outFile", "output", type=click.File("w", encoding="utf-8"), default="-", help="File to write to [-].")
@click.option("--pretty", is_flag=True, help="Give each field a line of its own.")
@click.option("--quiet", is_flag=True, help="Say nothing but why it failed.")
@click.argument("given", type=_READABLE, required=False, metavar="[FILE]")
@click.version_option(docstore.__version__, message="Docstore bsondump version %(version)s")
def main(named: Path | None, output: IO[str], pretty: bool, quiet: bool, given: Path | None) -> None:
    """Print each document of a BSON file, by default of the standard input, as a line of extended JSON (canonical)."""
    if named is not None and given is not None:
        raise click.UsageError("there is one file to read: --bsonFile or the argument")
    path = named or given
    count = 0
    opened: AbstractContextManager[IO[bytes]]
    opened = nullcontext(sys.stdin.buffer) if path is None else path.open("rb")
    try:
        with opened as source:
            for document in documents_in(source):
                output.write(as_json(decode(document.raw, EXACT), pretty=pretty) + "\n")
                count += 1
    except BSONError as error:
        raise ToolFailed(f"after {count} documents: {error}") from error
    Terminal(quiet=quiet).say(f"{count} objects found")
