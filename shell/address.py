"""Where to connect: the forms of address that users type, as one value.

    host[:port][/database]      database      host:port,host:port/database      set/host:port,host:port[/database]
    mongodb://[user:password@]host[:port][,host[:port]...][/database][?replicaSet=name&...]

Options that the shell cannot honour are refused, not ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 27017
DEFAULT_DATABASE = "test"
DEFAULT_TIMEOUT = 10.0
SCHEME = "mongodb://"


class AddressError(ValueError):
    """An address that cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True)
class Address:
    """`hosts` are (name, port) pairs, any of which may serve. `replica_set` is None when the caller named none."""

    hosts: tuple[tuple[str, int], ...]
    database: str = DEFAULT_DATABASE
    replica_set: str | None = None
    timeout: float = DEFAULT_TIMEOUT

    def __str__(self) -> str:
        hosts = ",".join(f"{name}:{port}" for name, port in self.hosts)
        return f"{self.replica_set}/{hosts}" if self.replica_set else hosts


def parse_address(text: str, *, host: str | None = None, port: int | None = None) -> Address:
    """An address as typed, with what `--host` and `--port` say. Without a host in either: this machine."""
    if text.startswith(SCHEME):
        if host is not None or port is not None:
            raise AddressError("--host and --port cannot be combined with a mongodb:// address")
        return _parse_uri(text[len(SCHEME) :])
    if text.startswith("mongodb+srv://"):
        raise AddressError("mongodb+srv:// addresses need DNS service records, which this shell does not look up")
    if host is not None:
        set_name, hosts = _split_set(host)
        return Address(_hosts(hosts, port), text or DEFAULT_DATABASE, set_name)
    if not _names_a_host(text):
        return Address(((DEFAULT_HOST, port or DEFAULT_PORT),), text or DEFAULT_DATABASE)
    set_name, rest = _split_set(text)
    hosts, _, database = rest.partition("/")
    return Address(_hosts(hosts, port), database or DEFAULT_DATABASE, set_name)


def _names_a_host(text: str) -> bool:
    return any(mark in text for mark in ":/,.") or text == "localhost"


def _split_set(text: str) -> tuple[str | None, str]:
    """`set/host:port,...` is told from `host/database` by the colon or comma after the slash."""
    first, slash, rest = text.partition("/")
    if slash and ":" not in first and "," not in first and (":" in rest or "," in rest):
        return first, rest
    return None, text


def _hosts(text: str, port: int | None = None) -> tuple[tuple[str, int], ...]:
    return tuple(_host(part.strip(), port) for part in text.split(","))


def _host(text: str, default_port: int | None) -> tuple[str, int]:
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        number = rest.removeprefix(":")
    else:
        name, _, number = text.partition(":")
    if not name:
        raise AddressError(f"'{text}' names no host")
    if not number:
        return name, default_port or DEFAULT_PORT
    if not number.isdigit() or not 0 < int(number) < 65536:
        raise AddressError(f"'{text}' has no valid port")
    return name, int(number)


def _parse_uri(rest: str) -> Address:
    authority, _, path = rest.partition("/")
    if "@" in authority:
        raise AddressError("user names and passwords are not supported: the servers have no authentication yet")
    database, _, query = path.partition("?")
    replica_set = None
    timeout = DEFAULT_TIMEOUT
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "replicaSet":
            replica_set = value
        elif name == "connectTimeoutMS":
            timeout = int(value) / 1000
        else:
            raise AddressError(f"the option '{name}' is not supported in addresses")
    return Address(_hosts(authority), unquote(database) or DEFAULT_DATABASE, replica_set, timeout)
