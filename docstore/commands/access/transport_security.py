"""The interface of commands to TLS; None in a process without TLS."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from bson.int64 import Int64

from docstore.commands.parameters import ServerParameter
from docstore.security.certificates import Subject


class TransportSecurity(Protocol):
    """The certificates of a process, and the connections that use them."""

    @property
    def subject(self) -> Subject:
        """Return the subject of the process's own certificate."""

    @property
    def ends(self) -> datetime:
        """Return the expiry of that certificate."""

    @property
    def verifies(self) -> bool:
        """True if client certificates are verified."""

    @property
    def mode_name(self) -> str:
        """Return the current value of --tlsMode."""

    def change_mode(self, value: Any) -> None:
        """Change to the next mode. Errors: BadValue."""

    def rotate(self) -> None:
        """Reload all files, for later connections. Errors: CommandError; nothing has changed then."""

    def begin(self) -> None:
        """Log the certificates in use, and those that expire soon."""

    def parameter(self) -> ServerParameter:
        """Return the parameter that sets how long before its expiry a certificate is warned of."""

    def accepted_by_version(self) -> dict[str, int]:
        """Return the number of accepted connections by protocol version: "1.2", "1.3"."""


_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "unknown")


def accepted_document(security: TransportSecurity | None) -> dict[str, Any]:
    """Return accepted connections by protocol version, for serverStatus."""
    accepted = {} if security is None else security.accepted_by_version()
    return {version: Int64(accepted.get(version, 0)) for version in _VERSIONS}


def certificate_document(security: TransportSecurity | None) -> dict[str, Any] | None:
    """Return the process's own certificate, for serverStatus."""
    if security is None:
        return None
    return {
        "SSLServerSubjectName": security.subject.text,
        "SSLServerHasCertificateAuthority": security.verifies,
        "SSLServerCertificateExpirationDate": security.ends,
    }
