"""Certificates for tests: an authority that is made anew, and what it signs. Nothing of it outlives a test by much."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = {
    "CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "DC": NameOID.DOMAIN_COMPONENT, "C": NameOID.COUNTRY_NAME, "emailAddress": NameOID.EMAIL_ADDRESS,
}  # fmt: skip
_PEM = serialization.Encoding.PEM
HOSTS = ("127.0.0.1", "localhost")


def name(**parts: str) -> x509.Name:
    """A name of these attributes, in this order."""
    return x509.Name([x509.NameAttribute(NAMES[kind], value) for kind, value in parts.items()])


class Authority:
    """Signs certificates; all files are in `directory`. `ca_file`: its own certificate."""

    def __init__(self, directory: Path, title: str = "Authority", *, days: float = 10) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name(CN=title)
        self._revoked: list[int] = []
        builder = self._builder(self._name, self._key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_bytes(self._certificate.public_bytes(_PEM))

    def issue(
        self,
        file: str,
        subject: x509.Name | None = None,
        *,
        hosts: Sequence[str] = HOSTS,
        days: float = 100,
        password: str | None = None,
        revoked: bool = False,
    ) -> Path:
        """A private file with a certificate and its key. `days` below 0: one that has ended."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name(CN=file) if subject is None else subject, key.public_key(), days)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        if revoked:
            self._revoked.append(certificate.serial_number)
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)
        path = self._directory / f"{file}.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate.public_bytes(_PEM) + secret)
        return path

    def revocations(self) -> Path:
        """The list of the certificates that were revoked."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        builder = builder.last_update(now - timedelta(hours=1)).next_update(now + timedelta(days=1))
        for serial in self._revoked:
            one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - timedelta(hours=1))
            builder = builder.add_revoked_certificate(one.build())
        path = self._directory / "crl.pem"
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        return path

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: float) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=200))
            .not_valid_after(now + timedelta(days=days))
        )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
