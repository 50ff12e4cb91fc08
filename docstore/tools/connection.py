"""The connection of a tool, and the options that name it: the same for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, InvalidURI

from docstore.tools.terminal import Terminal
from docstore.tools.text.extended_json import document_option

Client = MongoClient[RawBSONDocument]
"""A client whose documents are the bytes that the server sent."""

RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)

_MECHANISMS = ("SCRAM-SHA-1", "SCRAM-SHA-256")
_MODES = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
_OPTIONS = (
    click.option("--uri", help="Servers and options as mongodb://HOST,HOST/DATABASE?replicaSet=NAME."),
    click.option("-h", "--host", help="Server to connect to: HOST[:PORT], or SET/HOST[:PORT],... [127.0.0.1]."),
    click.option("--port", type=click.IntRange(1, 65_535), help="Port of the server [27017]."),
    click.option("-u", "--username", help="User to be."),
    click.option("-p", "--password", help="The user's password; asked for when left out."),
    click.option("--authenticationDatabase", "source", help="Database that knows the user [admin]."),
    click.option("--authenticationMechanism", "mechanism", type=click.Choice(_MECHANISMS), help="How to log in."),
    click.option("--quiet", is_flag=True, help="Say nothing but why it failed."),
)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that `connect` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def connect(
    *,
    uri: str | None,
    host: str | None,
    port: int | None,
    username: str | None,
    password: str | None,
    source: str | None,
    mechanism: str | None,
    quiet: bool,
    **more: Any,
) -> Client:
    """A client for what the options name; `more` are options of the client. Errors: click.UsageError."""
    if uri is not None and (host is not None or port is not None):
        raise click.UsageError("--uri names the servers: it goes with neither --host nor --port")
    options: dict[str, Any] = {"serverSelectionTimeoutMS": 10_000, "appname": "docstore", **more}
    if username is not None:
        options["username"] = username
        options["password"] = password or click.prompt("Enter password", hide_input=True, err=True)
        options["authSource"] = source or "admin"
        if mechanism is not None:
            options["authMechanism"] = mechanism
    elif password is not None or source is not None or mechanism is not None:
        raise click.UsageError("a password, a mechanism or an authentication database needs --username")
    try:
        client: Client = MongoClient(uri or _servers(host, port), **options, document_class=RawBSONDocument)
    except (ConfigurationError, InvalidURI, ValueError) as error:
        raise click.UsageError(str(error)) from error
    Terminal(quiet=quiet).say(f"connected to: {_place(uri, host, port)}")
    return client


def default_database(client: Client) -> str | None:
    """The database that the URI names."""
    try:
        return client.get_default_database().name
    except ConfigurationError:
        return None


def read_preference_options(text: str | None) -> dict[str, Any]:
    """Options of a client for `--readPreference`: a mode, or `{mode, tagSets, maxStalenessSeconds}` as JSON."""
    if text is None:
        return {}
    described: dict[str, Any]
    described = document_option(text, "--readPreference") if text.lstrip().startswith("{") else {"mode": text}
    if described.get("mode") not in _MODES or described.keys() - {"mode", "tagSets", "maxStalenessSeconds"}:
        raise click.UsageError(f"--readPreference is one of {', '.join(_MODES)}, alone or as mode of a document")
    options: dict[str, Any] = {"readPreference": described["mode"]}
    if "tagSets" in described:
        tags = [",".join(f"{name}:{value}" for name, value in each.items()) for each in described["tagSets"]]
        options["readPreferenceTags"] = tags
    if "maxStalenessSeconds" in described:
        options["maxStalenessSeconds"] = described["maxStalenessSeconds"]
    return options


def write_concern_options(text: str | None) -> dict[str, Any]:
    """Options of a client for `--writeConcern`: `w` alone, or `{w, j, wtimeout}` as JSON. By default a majority."""
    if text is None:
        return {"w": "majority"}
    if not text.lstrip().startswith("{"):
        described: dict[str, Any] = {"w": int(text) if text.isdecimal() else text}
    else:
        described = document_option(text, "--writeConcern")
    names = {"w": "w", "j": "journal", "wtimeout": "wTimeoutMS"}
    if not described or described.keys() - names.keys():
        raise click.UsageError("--writeConcern is w, or a document of w, j and wtimeout")
    if described.get("w") == 0:
        raise click.UsageError("--writeConcern 0 would leave failures untold")
    return {names[name]: value for name, value in described.items()}


def _servers(host: str | None, port: int | None) -> str:
    name, _, hosts = (host or "127.0.0.1").rpartition("/")
    servers = [_with_port(each, port) for each in hosts.split(",")]
    return f"mongodb://{','.join(servers)}/" + (f"?replicaSet={name}" if name else "")


def _with_port(host: str, port: int | None) -> str:
    """The port of the option is that of a host that has none."""
    bare = host.rpartition("]")[2] if host.startswith("[") else host
    return host if ":" in bare or port is None else f"{host}:{port}"


def _place(uri: str | None, host: str | None, port: int | None) -> str:
    """Where the tool is connected to, without a password."""
    if uri is None:
        return _servers(host, port)
    scheme, separator, rest = uri.partition("://")
    servers, slash, path = rest.partition("/")
    return scheme + separator + servers.rpartition("@")[2] + slash + path
