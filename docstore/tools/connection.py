"""The connection of a tool, and the options that name it: the same for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, InvalidURI

Client = MongoClient[RawBSONDocument]
"""A client whose documents are the bytes that the server sent."""

RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)

_OPTIONS = (
    click.option("--uri", help="Servers and options as mongodb://HOST,HOST/?replicaSet=NAME."),
    click.option("-h", "--host", default="127.0.0.1", show_default=True, help="Server to connect to: HOST[:PORT]."),
    click.option(
        "--port", type=click.IntRange(1, 65_535), default=27017, show_default=True, help="Port of the server."
    ),
    click.option("-u", "--username", help="User to be."),
    click.option("-p", "--password", help="The user's password; asked for when left out."),
    click.option("--authenticationDatabase", "source", help="Database that knows the user [admin]."),
)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that `connect` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def connect(
    *, uri: str | None, host: str, port: int, username: str | None, password: str | None, source: str | None
) -> Client:
    """A client for what the options name. Errors: click.UsageError."""
    credentials: dict[str, Any] = {}
    if username is not None:
        credentials["username"] = username
        credentials["password"] = password or click.prompt("Enter password", hide_input=True, err=True)
        credentials["authSource"] = source or "admin"
    elif password is not None or source is not None:
        raise click.UsageError("a password or an authentication database needs --username")
    where: dict[str, Any] = {"host": uri} if uri is not None else {"host": host, "port": port}
    try:
        return MongoClient(
            **where, **credentials, document_class=RawBSONDocument, serverSelectionTimeoutMS=10_000, appname="docstore"
        )
    except (ConfigurationError, InvalidURI) as error:
        raise click.UsageError(str(error)) from error
