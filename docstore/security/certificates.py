"""Certificates: their subject and their validity.

Names are written as in RFC 2253, and as MongoDB does: the last part first, attributes by their short names, non-ASCII
characters as the hexadecimal digits of their UTF-8. Two processes belong to one cluster if the organisations,
organisational units and domain components of their certificates are equal, and there is at least one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

_SHORT = {
    "2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
    "2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description",
    "2.5.4.15": "businessCategory", "2.5.4.17": "postalCode", "2.5.4.41": "name", "2.5.4.42": "GN",
    "2.5.4.43": "initials", "2.5.4.44": "generationQualifier", "2.5.4.46": "dnQualifier", "2.5.4.65": "pseudonym",
    "2.5.4.97": "organizationIdentifier", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress", "1.2.840.113549.1.9.2": "unstructuredName",
    "1.3.6.1.4.1.311.60.2.1.1": "jurisdictionL", "1.3.6.1.4.1.311.60.2.1.2": "jurisdictionST",
    "1.3.6.1.4.1.311.60.2.1.3": "jurisdictionC",
}  # fmt: skip
_OF_CLUSTERS = frozenset(("O", "OU", "DC"))
_ESCAPED = frozenset(',+"\\<>;')


class BadCertificate(ValueError):
    """The bytes are no certificate; the message says why."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a certificate. `text`: its name by RFC 2253; `organisation`: the attributes that identify
    clusters, in order, each with its value.
    """

    text: str
    organisation: tuple[tuple[str, str], ...] = ()

    def is_member_with(self, other: Subject) -> bool:
        """True if the two are processes of one cluster."""
        return bool(self.organisation) and self.organisation == other.organisation


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate, valid from `begins` to `ends`."""

    subject: Subject
    begins: datetime
    ends: datetime


def read_certificate(der: bytes) -> Certificate:
    """Parse a certificate. Errors: BadCertificate."""
    from cryptography import x509  # takes long, and most processes need none of it

    try:
        return _certificate(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise BadCertificate(str(error)) from None


def read_first_certificate(pem: bytes) -> Certificate:
    """The first certificate of a PEM file. Errors: BadCertificate."""
    from cryptography import x509

    try:
        return _certificate(x509.load_pem_x509_certificate(pem))
    except ValueError as error:
        raise BadCertificate(str(error)) from None


def subject_of(text: str) -> Subject | None:
    """Parse a name in the form of `Subject.text`; None for malformed text."""
    from cryptography import x509

    short = {name: x509.ObjectIdentifier(oid) for oid, name in _SHORT.items()}
    try:
        return _subject(x509.Name.from_rfc4514_string(text, short))
    except ValueError:
        return None


def _certificate(certificate: x509.Certificate) -> Certificate:
    return Certificate(_subject(certificate.subject), certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _subject(name: x509.Name) -> Subject:
    parts = ["+".join(reversed([_display(attribute) for attribute in part])) for part in reversed(name.rdns)]
    organisation = sorted(
        (_type(attribute), _text(attribute)) for attribute in name if _type(attribute) in _OF_CLUSTERS
    )
    return Subject(",".join(parts), tuple(organisation))


def _display(attribute: x509.NameAttribute[str | bytes]) -> str:
    return f"{_type(attribute)}={''.join(_escaped(_text(attribute)))}"


def _type(attribute: x509.NameAttribute[str | bytes]) -> str:
    oid = attribute.oid.dotted_string
    return _SHORT.get(oid, oid)


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else f"#{value.hex()}"


def _escaped(text: str) -> Iterator[str]:
    last = len(text) - 1
    for position, character in enumerate(text):
        edge = (position == 0 and character in " #") or (position == last and character == " ")
        if edge or character in _ESCAPED:
            yield f"\\{character}"
        elif " " <= character <= "~":
            yield character
        else:
            yield "".join(f"\\{byte:02X}" for byte in character.encode())
