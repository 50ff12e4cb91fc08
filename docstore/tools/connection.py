"""The connection of a tool, and the options that name it: the same for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import click
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, InvalidURI
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent
from pymongo.uri_parser import parse_uri

from docstore.tools.encryption import encryption_of, encryption_options, with_config
from docstore.tools.terminal import Terminal
from docstore.tools.text.extended_json import document_option

Client = MongoClient[RawBSONDocument]
"""A client whose documents are the bytes that the server sent."""

RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)

_X509 = "MONGODB-X509"
_MECHANISMS = ("SCRAM-SHA-1", "SCRAM-SHA-256", _X509)
_MODES = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
_OF_ONE_PLACE = ("replicaset", "directconnection", "loadbalanced", "srvservicename", "srvmaxhosts", "readpreference")
_OPTIONS = (
    click.option("--uri", help="Servers and options as mongodb://HOST,HOST/DATABASE?replicaSet=NAME."),
    click.option("-h", "--host", help="Server to connect to: HOST[:PORT], or SET/HOST[:PORT],... [127.0.0.1]."),
    click.option("--port", type=click.IntRange(1, 65_535), help="Port of the server [27017]."),
    click.option("-u", "--username", help="User to be."),
    click.option("-p", "--password", help="The user's password; asked for when left out."),
    click.option("--authenticationDatabase", "source", help="Database that knows the user [admin]."),
    click.option("--authenticationMechanism", "mechanism", type=click.Choice(_MECHANISMS), help="How to log in."),
    click.option("--quiet", is_flag=True, help="Say nothing but why it failed."),
    click.option("-v", "--verbose", count=True, help="Say which server it is; -vv: and which commands it is sent."),
)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `connect` to a command."""
    command = encryption_options(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Deployment:
    """The servers that the options name."""

    def __init__(self, *, quiet: bool, **given: Any) -> None:
        """`given`: the values of `connection_options`, and further options of a client. Errors: click.UsageError."""
        self._terminal, self._verbose = Terminal(quiet=quiet), given["verbose"]
        self._servers, self._options = client_options(given)
        if self._verbose > 1:
            self._options["event_listeners"] = [Commands(self._terminal)]

    def client(self) -> Client:
        """Errors: click.UsageError."""
        try:
            client: Client = MongoClient(self._servers, **self._options, document_class=RawBSONDocument)
        except (ConfigurationError, InvalidURI, ValueError) as error:
            raise click.UsageError(str(error)) from error
        self._terminal.say(f"connected to: {_without_password(self._servers)}")
        if self._verbose:
            hello = client.admin.command("hello")
            kind = f"a member of the set {hello['setName']}" if "setName" in hello else "a node of its own"
            kind = "a router" if hello.get("msg") == "isdbgrid" else kind
            self._terminal.say(f"the server is {kind}, of version {client.server_info()['version']}")
        return client

    def member(self, address: str) -> Client:
        """A client for one server alone. Errors: click.UsageError."""
        options = options_of_any_server(self._servers) | self._options | {"directConnection": True}
        return MongoClient([address], **options, document_class=RawBSONDocument)


def connect(*, quiet: bool, **given: Any) -> Client:
    """Return a client for the options. Errors: click.UsageError."""
    return Deployment(quiet=quiet, **given).client()


def options_of_any_server(uri: str) -> dict[str, Any]:
    """The options of a URI that are for any server of its deployment. Errors: click.UsageError."""
    try:
        parsed = parse_uri(uri)
    except (InvalidURI, ValueError) as error:
        raise click.UsageError(str(error)) from error
    options = {name: value for name, value in parsed["options"].items() if name.lower() not in _OF_ONE_PLACE}
    if parsed["username"] is not None:
        options |= {"username": parsed["username"], "password": parsed["password"]}
        options.setdefault("authSource", parsed["database"] or "admin")
    return options


class Commands(CommandListener):
    """Logs the commands sent to servers: names and times, but no values."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def started(self, event: CommandStartedEvent) -> None:
        pass

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._say(event, "ok")

    def failed(self, event: CommandFailedEvent) -> None:
        self._say(event, "failed")

    def _say(self, event: CommandSucceededEvent | CommandFailedEvent, outcome: str) -> None:
        host, port = event.connection_id
        took = event.duration_micros / 1000
        self._terminal.say(f"{host}:{port} {event.database_name} {event.command_name}: {outcome}, {took:.1f} ms")


def client_options(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return (URI, client options) for the values of `connection_options` and further options of a client.

    Errors: click.UsageError.
    """
    values = with_config({name: value for name, value in values.items() if name != "verbose"})
    uri, host, port = (values.pop(name) for name in ("uri", "host", "port"))
    if uri is not None and (host is not None or port is not None):
        raise click.UsageError("--uri names the servers: it goes with neither --host nor --port")
    if uri is not None and values["username"] is None and values["password"] is not None:
        uri = _with_password(uri, values["password"])
        values["password"] = None
    login = _login(*(values.pop(name) for name in ("username", "password", "source", "mechanism")))
    options = {"serverSelectionTimeoutMS": 10_000, "appname": "docstore", **encryption_of(values), **login, **values}
    return uri or _servers(host, port), options


def _login(username: str | None, password: str | None, source: str | None, mechanism: str | None) -> dict[str, Any]:
    if mechanism == _X509:
        if password is not None or source not in (None, "$external"):
            raise click.UsageError("who shows a certificate needs no password, and is a user of $external")
        return {"authMechanism": _X509} | ({} if username is None else {"username": username})
    if username is None:
        if password is not None or source is not None or mechanism is not None:
            raise click.UsageError("a password, a mechanism or an authentication database needs --username")
        return {}
    login = {
        "username": username,
        "password": password or click.prompt("Enter password", hide_input=True, err=True),
        "authSource": source or "admin",
    }
    return login if mechanism is None else login | {"authMechanism": mechanism}


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
        tags = [",".join(f"{name}:{value}" for name, value in tag_set.items()) for tag_set in described["tagSets"]]
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
    servers = [_with_port(server, port) for server in hosts.split(",")]
    return f"mongodb://{','.join(servers)}/" + (f"?replicaSet={name}" if name else "")


def _with_port(host: str, port: int | None) -> str:
    """Add the option's port to a host without one."""
    bare = host.rpartition("]")[2] if host.startswith("[") else host
    return host if ":" in bare or port is None else f"{host}:{port}"


def _with_password(uri: str, password: str) -> str:
    """Add the password of the user in the URI, which must not have one. Errors: click.UsageError."""
    scheme, separator, authority = uri.partition("://")
    user, at, servers = authority.rpartition("@")
    if not at or ":" in user:
        raise click.UsageError("a password is that of --username, or of the user whom --uri names without one")
    return f"{scheme}{separator}{user}:{quote_plus(password)}@{servers}"


def _without_password(uri: str) -> str:
    scheme, separator, authority = uri.partition("://")
    servers, slash, path = authority.partition("/")
    return scheme + separator + servers.rpartition("@")[2] + slash + path
