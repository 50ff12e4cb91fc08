"""Server addresses: the forms that users type, parsed to one value.

    host[:port][/database]      database      host:port,host:port/database      set/host:port,host:port[/database]
    mongodb://[user:password@]host[:port][,host[:port]...][/database][?replicaSet=name&...]
    mongodb://%2Ftmp%2Fmongodb-27017.sock[/database]

Options that the shell cannot honour are refused, not ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote

from shell.encryption import Encryption

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 27017
DEFAULT_DATABASE = "test"
DEFAULT_TIMEOUT = 10.0
SCHEME = "mongodb://"
X509 = "MONGODB-X509"
MECHANISMS = ("SCRAM-SHA-1", "SCRAM-SHA-256", X509)
EXTERNAL = "$external"
"""The database of users who are known by their certificates."""
READ_MODES = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")


class AddressError(ValueError):
    """An address that cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user's credentials.

    `source`: the database that knows the user; without a `mechanism` the server chooses. With a certificate no
    password is needed, and `user` may be empty: the subject of the certificate.
    """

    user: str
    password: str
    source: str
    mechanism: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """An address.

    `hosts` are (name, port) pairs, any of which may serve; a name that begins with / is the path of a socket, and its
    port is unused. `replica_set` is None if the address names none. `direct`: use only the one host, in any role.
    `defaults`: the concerns and the read preference of every command, by the names in the shell's connections. Times
    in seconds.
    """

    hosts: tuple[tuple[str, int], ...]
    database: str = DEFAULT_DATABASE
    replica_set: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    reply_timeout: float | None = None
    selection_timeout: float | None = None
    direct: bool = False
    application: str | None = None
    credentials: Credentials | None = None
    encryption: Encryption | None = None
    defaults: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        hosts = ",".join(name if name.startswith("/") else f"{name}:{port}" for name, port in self.hosts)
        return f"{self.replica_set}/{hosts}" if self.replica_set else hosts

    def with_credentials(self, user: str, password: str, source: str | None, mechanism: str | None) -> Address:
        """The same servers for a user. Without a source the database of the address knows the user."""
        return replace(self, credentials=Credentials(user, password, source or self.database, mechanism))


def parse_address(text: str, *, host: str | None = None, port: int | None = None) -> Address:
    """Parse a typed address, combined with `--host` and `--port`. Without any host: this machine."""
    if text.startswith(SCHEME):
        if host is not None or port is not None:
            raise AddressError("--host and --port cannot be combined with a mongodb:// address")
        return _parse_uri(text[len(SCHEME) :])
    if host is not None and host.startswith(SCHEME) and not text and port is None:
        return _parse_uri(host[len(SCHEME) :])
    if text.startswith("mongodb+srv://"):
        raise AddressError("mongodb+srv:// addresses need DNS service records, which this shell does not look up")
    if "@" in text or (host is not None and "@" in host):
        raise AddressError("an address with a user and a password begins with mongodb://")
    if host is not None:
        set_name, hosts = _split_set(host)
        return Address(_hosts(hosts, port), text or DEFAULT_DATABASE, set_name)
    if not _names_a_host(text):
        return Address(((DEFAULT_HOST, port or DEFAULT_PORT),), text or DEFAULT_DATABASE)
    set_name, location = _split_set(text)
    hosts, _, database = location.partition("/")
    return Address(_hosts(hosts, port), database or DEFAULT_DATABASE, set_name)


def _names_a_host(text: str) -> bool:
    return any(mark in text for mark in ":/,.") or text == "localhost"


def _split_set(text: str) -> tuple[str | None, str]:
    """Split off a set's name. The colon or comma after the slash tells `set/host:port,...` from `host/database`."""
    first, slash, hosts = text.partition("/")
    if slash and ":" not in first and "," not in first and (":" in hosts or "," in hosts):
        return first, hosts
    return None, text


def _hosts(text: str, port: int | None = None) -> tuple[tuple[str, int], ...]:
    return tuple(_host(part.strip(), port) for part in text.split(","))


def _host(text: str, default_port: int | None) -> tuple[str, int]:
    if text.lower().startswith("%2f"):
        return unquote(text), default_port or DEFAULT_PORT
    if text.startswith("["):
        name, _, port_part = text[1:].partition("]")
        number = port_part.removeprefix(":")
    else:
        name, _, number = text.partition(":")
    if not name:
        raise AddressError(f"'{text}' names no host")
    if not number:
        return name, default_port or DEFAULT_PORT
    if not number.isdigit() or not 0 < int(number) < 65536:
        raise AddressError(f"'{text}' has no valid port")
    return name, int(number)


def _parse_uri(text: str) -> Address:
    authority, _, path = text.partition("/")
    user_info, at, hosts = authority.rpartition("@")
    database, _, query = path.partition("?")
    options = _Options()
    for name, value in parse_qsl(query, keep_blank_values=True):
        options.take(name, value)
    address = options.address(_hosts(hosts), unquote(database))
    if options.mechanism == X509:
        user, _, password = user_info.partition(":")
        if password:
            raise AddressError("a user who authenticates by a certificate has no password")
        return address.with_credentials(unquote(user), "", EXTERNAL, X509)
    if not at:
        if options.source is not None or options.mechanism is not None:
            raise AddressError("authSource and authMechanism need a user name in the address")
        return address
    user, colon, password = user_info.partition(":")
    if not user or not colon:
        raise AddressError("a user name in an address needs a password: mongodb://user:password@host")
    source = options.source or unquote(database) or "admin"
    return address.with_credentials(unquote(user), unquote(password), source, options.mechanism)


class _Options:
    """The options of one mongodb:// address; names are compared without regard to case."""

    def __init__(self) -> None:
        self.source: str | None = None
        self.mechanism: str | None = None
        self._fields: dict[str, Any] = {}
        self._encrypted: bool | None = None
        self._encryption: dict[str, Any] = {}
        self._concern: dict[str, Any] = {}
        self._preference: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}

    def take(self, name: str, value: str) -> None:
        """Note one option. Errors: AddressError for an unknown one or a bad value."""
        setter = _SETTERS.get(name.lower())
        if setter is None:
            raise AddressError(f"the option '{name}' is not supported in addresses")
        try:
            setter(self, value)
        except ValueError as error:
            raise AddressError(f"the option '{name}' cannot be '{value}': {error}") from error

    def address(self, hosts: tuple[tuple[str, int], ...], database: str) -> Address:
        """Return the address of all options. Errors: AddressError for options that contradict each other."""
        defaults = dict(self._defaults)
        if self._concern:
            defaults["writeConcern"] = self._concern
        if self._preference:
            if "mode" not in self._preference:
                raise AddressError("read preference tags and staleness need a readPreference")
            if self._preference["mode"] == "primary" and len(self._preference) > 1:
                raise AddressError("the read preference primary takes no tags and no staleness")
            defaults["readPreference"] = self._preference
        address = Address(
            hosts,
            database or DEFAULT_DATABASE,
            encryption=self._how_encrypted(),
            defaults=defaults,
            **self._fields,
        )
        if address.direct and len(hosts) > 1:
            raise AddressError("directConnection is for one host")
        return address

    def _how_encrypted(self) -> Encryption | None:
        if self._encryption and not self._encrypted:
            raise AddressError("options that begin with tls need tls=true")
        return Encryption(**self._encryption) if self._encrypted else None

    def encrypt(self, value: str) -> None:
        encrypted = _boolean(value)
        if self._encrypted not in (None, encrypted):
            raise ValueError("tls and ssl are names of one option")
        self._encrypted = encrypted

    def encryption(self, name: str, value: Any) -> None:
        self._encryption[name] = value

    def insecure(self, value: str) -> None:
        self._encryption["invalid_certificates"] = _boolean(value)

    def field(self, name: str, value: Any) -> None:
        self._fields[name] = value

    def default(self, name: str, value: Any) -> None:
        self._defaults[name] = value

    def concern(self, name: str, value: Any) -> None:
        self._concern[name] = value

    def preference(self, name: str, value: Any) -> None:
        if name == "tags":  # given once for each set of tags, in order of preference
            self._preference.setdefault("tags", []).append(value)
        else:
            self._preference[name] = value

    def set_login_field(self, name: str, value: str) -> None:
        setattr(self, name, value)


def _boolean(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("it is true or false")
    return value == "true"


def _number(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError("it is not negative")
    return number


def _seconds(value: str) -> float | None:
    return _number(value) / 1000 or None


def _one_of(*allowed: str) -> Callable[[str], str]:
    def checked(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"it is one of {', '.join(allowed)}")
        return value

    return checked


def _tags(value: str) -> dict[str, str]:
    pairs = [part.partition(":") for part in value.split(",") if part]
    if not all(colon for _, colon, _ in pairs):
        raise ValueError("tags are name:value")
    return {name.strip(): tag.strip() for name, _, tag in pairs}


def _w(value: str) -> int | str:
    return _number(value) if value.lstrip("-").isdigit() else value


def _to(
    kind: Callable[[_Options, str, Any], None], name: str, read: Callable[[str], Any]
) -> Callable[[_Options, str], None]:
    return lambda options, value: kind(options, name, read(value))


_SETTERS: dict[str, Callable[[_Options, str], None]] = {
    "replicaset": _to(_Options.field, "replica_set", str),
    "directconnection": _to(_Options.field, "direct", _boolean),
    "connecttimeoutms": _to(_Options.field, "timeout", _seconds),
    "sockettimeoutms": _to(_Options.field, "reply_timeout", _seconds),
    "serverselectiontimeoutms": _to(_Options.field, "selection_timeout", _seconds),
    "appname": _to(_Options.field, "application", str),
    "readconcernlevel": _to(_Options.default, "readConcern", lambda level: {"level": level}),
    "retrywrites": _to(_Options.default, "retryWrites", _boolean),
    "w": _to(_Options.concern, "w", _w),
    "wtimeoutms": _to(_Options.concern, "wtimeout", _number),
    "wtimeout": _to(_Options.concern, "wtimeout", _number),
    "journal": _to(_Options.concern, "j", _boolean),
    "readpreference": _to(_Options.preference, "mode", _one_of(*READ_MODES)),
    "readpreferencetags": _to(_Options.preference, "tags", _tags),
    "maxstalenessseconds": _to(_Options.preference, "maxStalenessSeconds", int),
    "authsource": _to(_Options.set_login_field, "source", str),
    "authmechanism": _to(_Options.set_login_field, "mechanism", _one_of(*MECHANISMS)),
    "ssl": _Options.encrypt,
    "tls": _Options.encrypt,
    "tlscafile": _to(_Options.encryption, "ca_file", str),
    "tlscertificatekeyfile": _to(_Options.encryption, "certificate_key_file", str),
    "tlscertificatekeyfilepassword": _to(_Options.encryption, "password", str),
    "tlsallowinvalidcertificates": _to(_Options.encryption, "invalid_certificates", _boolean),
    "tlsallowinvalidhostnames": _to(_Options.encryption, "invalid_hostnames", _boolean),
    "tlsinsecure": _Options.insecure,
}
