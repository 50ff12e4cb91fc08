"""Who is let in where connections are encrypted: each kind of client at each kind of server, a real one and ours."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import bson
import pytest

from scripts.deployment import Member, StartFailed, stopped_at_end
from tests.harness.certificates import Authority
from tests.harness.deployment import ForkedDeployment
from tests.harness.reference import ReferenceEnded, reference_server

pytestmark = [pytest.mark.reference, pytest.mark.cluster]
HELLO = bson.encode({"hello": 1, "$db": "admin"})
SECONDS = 10
PASSWORD = "open sesame"


class Files:
    """What an authority, and another that servers do not know, have signed."""

    def __init__(self, directory: Path) -> None:
        self._ours = Authority(directory / "ours")
        self._strange = Authority(directory / "strange", "Stranger")
        self.shown = {
            "good": self._ours.issue("good"),
            "locked": self._ours.issue("locked", password=PASSWORD),
            "ended": self._ours.issue("ended", days=-1),
            "revoked": self._ours.issue("revoked", revoked=True),
            "elsewhere": self._ours.issue("elsewhere", hosts=["example.net"]),
            "strange": self._strange.issue("strange"),
        }
        """The files that servers and clients show, by what there is to say of them."""
        self.named = {name: str(path) for name, path in self.shown.items()} | {
            "ca": str(self._ours.ca_file),
            "crl": str(self._ours.revocations()),
            "strange_ca": str(self._strange.ca_file),
            "strange_crl": str(self._strange.revocations()),
            "missing": str(directory / "missing"),
        }
        """What may stand in braces in the options of a server."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


def server(mode: str, *more: str, own: str = "good") -> list[str]:
    """Options in which {name} stands for a file."""
    return ["--tlsMode", mode, "--tlsCertificateKeyFile", f"{{{own}}}", *more]


CA = ("--tlsCAFile", "{ca}")
SERVERS = {
    "disabled": ["--tlsMode", "disabled"],
    "allowTLS": server("allowTLS", *CA),
    "preferTLS": server("preferTLS", *CA),
    "requireTLS": server("requireTLS", *CA),
    "revocations": server("requireTLS", *CA, "--tlsCRLFile", "{crl}"),
    "strangers' revocations": server("requireTLS", *CA, "--tlsCRLFile", "{strange_crl}"),
    "no certificates needed": server("requireTLS", *CA, "--tlsAllowConnectionsWithoutCertificates"),
    "any certificates": server("requireTLS", *CA, "--tlsAllowInvalidCertificates"),
    "any names": server("requireTLS", *CA, "--tlsAllowInvalidHostnames"),
    "clients of another": server("requireTLS", *CA, "--tlsClusterCAFile", "{strange_ca}"),
    "not 1.3": server("requireTLS", *CA, "--tlsDisabledProtocols", "TLS1_3"),
    "not 1.2": server("requireTLS", *CA, "--tlsDisabledProtocols", "TLS1_2"),
    "neither": server("requireTLS", *CA, "--tlsDisabledProtocols", "TLS1_2,TLS1_3"),
    "unknown protocol": server("requireTLS", *CA, "--tlsDisabledProtocols", "TLS9"),
    "locked": server("requireTLS", *CA, "--tlsCertificateKeyFilePassword", PASSWORD, own="locked"),
    "locked, wrong password": server("requireTLS", *CA, "--tlsCertificateKeyFilePassword", "x", own="locked"),
    "another file for clusters": server("requireTLS", *CA, "--tlsClusterFile", "{locked}",
                                        "--tlsClusterPassword", PASSWORD),
    "its own has ended": server("requireTLS", *CA, own="ended"),
    "its own is another's": server("requireTLS", *CA, own="strange"),
    "no such file": server("requireTLS", *CA, own="missing"),
    "no such authority": server("requireTLS", "--tlsCAFile", "{missing}"),
    "no such revocations": server("requireTLS", *CA, "--tlsCRLFile", "{missing}"),
    "revocations of no kind": server("requireTLS", *CA, "--tlsCRLFile", "{good}"),
    "no file": ["--tlsMode", "requireTLS", *CA],
    "unknown mode": ["--tlsMode", "requireSSL"],
}  # fmt: skip


def context(files: Files, shown: str | None, *, only: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if shown is not None:
        made.load_cert_chain(files.shown[shown], password=PASSWORD)
    if only is not None:
        made.minimum_version = made.maximum_version = only
    return made


CLIENTS: dict[str, Callable[[Files], ssl.SSLContext | None]] = {
    "plain": lambda _: None,
    "no certificate": partial(context, shown=None),
    "good": partial(context, shown="good"),
    "1.2": partial(context, shown="good", only=ssl.TLSVersion.TLSv1_2),
    "1.3": partial(context, shown="good", only=ssl.TLSVersion.TLSv1_3),
    "ended": partial(context, shown="ended"),
    "revoked": partial(context, shown="revoked"),
    "strange": partial(context, shown="strange"),
    "elsewhere": partial(context, shown="elsewhere"),
}


def let_in(port: int, security: ssl.SSLContext | None) -> bool:
    """Whether a `hello` is answered."""
    body = b"\0\0\0\0\0" + HELLO
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as plain:
        wrapped = plain if security is None else security.wrap_socket(plain)
        with wrapped:
            wrapped.sendall((16 + len(body)).to_bytes(4, "little") + bytes(8) + (2013).to_bytes(4, "little") + body)
            return bool(wrapped.recv(16))
    return False


@contextlib.contextmanager
def node_of_ours(directory: Path, options: list[str]) -> Iterator[int]:
    with stopped_at_end(ForkedDeployment(directory)) as deployment:
        node = Member("node", "mongod", options)
        deployment.start(node)
        yield node.port


def met(server: contextlib.AbstractContextManager[int], files: Files) -> dict[str, bool] | None:
    """Which clients a server lets in; None: it does not start."""
    try:
        with server as port:
            return {name: let_in(port, make(files)) for name, make in CLIENTS.items()}
    except (StartFailed, ReferenceEnded):
        return None


@pytest.mark.parametrize("name", SERVERS)
def test_the_same_clients_are_let_in(name: str, files: Files, tmp_path: Path) -> None:
    options = [option.format(**files.named) for option in SERVERS[name]]
    (tmp_path / "theirs").mkdir()
    theirs = met(reference_server(tmp_path / "theirs", *options), files)
    ours = met(node_of_ours(tmp_path / "ours", options), files)
    if name == "neither":
        # A server that nobody can connect to.
        assert theirs is not None
        assert not any(theirs.values())
        theirs = None
    elif name == "any certificates":
        # Theirs wants one, whatever it is, which everybody can make. OpenSSL here either checks one or asks for none.
        assert theirs is not None
        assert not theirs["no certificate"]
        theirs["no certificate"] = True
    assert ours == theirs
