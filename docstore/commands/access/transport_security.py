"""What commands see of the encryption of connections; a process that encrypts none has no such thing."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from bson.int64 import Int64

from docstore.commands.parameters import ServerParameter
from docstore.security.certificates import Subject


class TransportSecurity(Protocol):
    """The certificates of a process, and the connections that they were shown on."""

    @property
    def subject(self) -> Subject:
        """Whose the process's own certificate is."""

    @property
    def ends(self) -> datetime:
        """When that certificate ends."""

    @property
    def verifies(self) -> bool:
        """Whether the certificates of clients are looked at."""

    @property
    def mode_name(self) -> str:
        """The value of --tlsMode that holds now."""

    def change_mode(self, wanted: Any) -> None:
        """Go on to the next mode. Errors: BadValue."""

    def rotate(self) -> None:
        """Read all files anew, for later connections. Errors: CommandError; nothing changes then."""

    def begin(self) -> None:
        """Say in the log which certificates are used, and which of them end soon."""

    def parameter(self) -> ServerParameter:
        """How long before its end a certificate is warned of."""

    def accepted_by_version(self) -> dict[str, int]:
        """How many connections were accepted, by the protocol that they speak: "1.2", "1.3"."""


_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "unknown")


def accepted_document(security: TransportSecurity | None) -> dict[str, Any]:
    """For serverStatus: accepted connections by the protocol that they speak."""
    accepted = {} if security is None else security.accepted_by_version()
    return {version: Int64(accepted.get(version, 0)) for version in _VERSIONS}


def certificate_document(security: TransportSecurity | None) -> dict[str, Any] | None:
    """For serverStatus: the process's own certificate."""
    if security is None:
        return None
    return {
        "SSLServerSubjectName": security.subject.text,
        "SSLServerHasCertificateAuthority": security.verifies,
        "SSLServerCertificateExpirationDate": security.ends,
    }
