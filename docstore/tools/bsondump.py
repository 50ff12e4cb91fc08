"""The `bsondump` command: a file of documents as extended JSON."""

from __future__ import annotations

import struct
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

import click
from bson import decode
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

import docstore
from docstore.tools.dumped.files import documents_in
from docstore.tools.terminal import Terminal, ToolCommand, ToolFailed, text_output
from docstore.tools.text.extended_json import EXACT, as_json
from docstore.tools.text.layout import layout_of

_READABLE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("bsondump", cls=ToolCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bsonFile", "named", type=_READABLE, help="File to read.")
@click.option("--outFile", "output", type=click.Path(path_type=Path), help="File to write to; - is stdout [-].")
@click.option("--type", "kind", type=click.Choice(["json", "debug"]), default="json", show_default=True)
@click.option("--objcheck", "checked", is_flag=True, help="Leave out documents that are malformed, and say so.")
@click.option("--pretty", is_flag=True, help="Give each field a line of its own.")
@click.option("--quiet", is_flag=True, help="Say nothing but why it failed.")
@click.argument("argument", type=_READABLE, required=False, metavar="[FILE]")
@click.version_option(docstore.__version__, message="Docstore bsondump version %(version)s")
def main(
    named: Path | None, output: Path | None, kind: str, checked: bool, pretty: bool, quiet: bool, argument: Path | None
) -> None:
    """Print each document of a BSON file, by default of the standard input, as a line of extended JSON (canonical)."""
    if named is not None and argument is not None:
        raise click.UsageError("there is one file to read: --bsonFile or the argument")
    if pretty and kind != "json":
        raise click.UsageError("--pretty is for JSON")
    path = named or argument
    count = malformed = 0
    terminal = Terminal(quiet=quiet)
    opened: AbstractContextManager[IO[bytes]]
    opened = nullcontext(sys.stdin.buffer) if path is None else path.open("rb")
    try:
        with opened as source, _output(output) as file:
            for document in documents_in(source):
                try:
                    text = layout_of(bytes(document.raw)) if kind == "debug" else _as_json(document, pretty=pretty)
                except (BSONError, ValueError, IndexError, struct.error) as error:
                    if not checked:
                        raise
                    terminal.say(f"document {count + malformed + 1} is malformed: {error}")
                    malformed += 1
                    continue
                file.write(text + "\n")
                count += 1
    except (BSONError, ValueError, IndexError, struct.error) as error:
        raise ToolFailed(f"after {count} documents: {error}") from error
    terminal.say(f"{count} objects found")
    if malformed:
        raise ToolFailed(f"{malformed} documents are malformed")


def _output(path: Path | None) -> AbstractContextManager[IO[str]]:
    return text_output() if path is None or str(path) == "-" else path.open("w", encoding="utf-8")


def _as_json(document: RawBSONDocument, *, pretty: bool) -> str:
    return as_json(decode(document.raw, EXACT), pretty=pretty)
