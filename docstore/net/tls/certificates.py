"""The certificates of a process as TLS contexts: for accepted connections and for outgoing ones.

- A connection keeps the certificates of its handshake. Reloaded files apply to later connections.
- A reload takes effect only if all files are valid.
"""

from __future__ import annotations

import os
import ssl
import stat
from _hashlib import get_fips_mode
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from docstore.commands.parameters import ServerParameter, whole_number
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.process import StartError
from docstore.options import TlsOptions
from docstore.options.values import TlsMode
from docstore.security.certificates import (
    BadCertificate,
    Certificate,
    Subject,
    read_certificate,
    read_first_certificate,
)
from docstore.tls import Unusable, new_context, show, trust, verify_servers

LOG = component("NETWORK")
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_EXIT_CODE = 1
WARNING_DAYS = 30
_WARNING_PARAMETER = "tlsX509ExpirationWarningThresholdDays"
_NEXT: dict[TlsMode, TlsMode] = {TlsMode.ALLOW: TlsMode.PREFER, TlsMode.PREFER: TlsMode.REQUIRE}
_ANY_CERTIFICATE = (
    "While invalid X509 certificates may be used to connect to this server, they will not be considered permissible for"
    " authentication"
)
_ANY_HOST = (
    "This server will not perform X.509 hostname validation. This may allow your server to make or accept connections"
    " to untrusted parties"
)
_NO_AUTHORITY = (
    "No client certificate validation can be performed since no CA file has been provided. Please specify a tlsCAFile"
    " parameter"
)


@dataclass(frozen=True, slots=True)
class _Material:
    """Everything built from the files. `presented`: the certificate presented to other processes of the cluster.

    `of_console`: that of the console.
    """

    accepting: ssl.SSLContext
    of_console: ssl.SSLContext
    connecting: ssl.SSLContext
    own: Certificate
    presented: Certificate


class TlsCertificates:
    """The certificates of the options' files. `mode` may be raised while the process runs."""

    def __init__(self, options: TlsOptions) -> None:
        """Errors: Unusable."""
        assert options.mode is not TlsMode.DISABLED, "there is something to encrypt"
        self.mode: TlsMode = options.mode
        self._options = options
        self._versions: Counter[str] = Counter()
        self._warning_days = WARNING_DAYS
        self._material = _read(options)

    @property
    def accepting(self) -> ssl.SSLContext:
        return self._material.accepting

    @property
    def of_console(self) -> ssl.SSLContext:
        """Speaks TLS 1.2 alone, unless that is disabled.

        Within TLS 1.3 a client may update keys at will. The console's sockets are read by the engine itself, in one
        call for as long as such records come, so that one client could stop the process.
        """
        return self._material.of_console

    @property
    def connecting(self) -> ssl.SSLContext | None:
        """None if the process makes plain connections."""
        return self._material.connecting if self.mode.sends else None

    @property
    def verifies(self) -> bool:
        """True if client certificates are verified."""
        return self._material.accepting.verify_mode is not ssl.CERT_NONE

    @property
    def subject(self) -> Subject:
        return self._material.own.subject

    @property
    def ends(self) -> datetime:
        return self._material.own.ends

    @property
    def mode_name(self) -> str:
        return str(self.mode.value)

    def change_mode(self, value: Any) -> None:
        try:
            mode = TlsMode(value)
        except ValueError:
            names = [f"'{mode.value}'" for mode in TlsMode]
            raise CommandError(
                Code.BadValue,
                f"Invalid tlsMode setting '{value}', expected one of: {', '.join(names[:-1])}, or {names[-1]}",
            ) from None
        if _NEXT.get(self.mode) is not mode:
            raise CommandError(
                Code.BadValue,
                f"Illegal state transition for tlsMode, attempt to change from {self.mode.value} to {mode.value}",
            )
        self.mode = mode

    def rotate(self) -> None:
        try:
            self._material = _read(self._options)
        except Unusable as error:
            raise CommandError(Code.InvalidSSLConfiguration, str(error)) from None
        LOG.info("Successfully rotated X509 certificates.")
        self.tell(datetime.now(UTC))

    def accepted(self, version: str | None, remote: str) -> None:
        """Count an accepted connection by its protocol version, as Python names it."""
        name = (version or "unknown").removeprefix("TLSv")
        self._versions[name] += 1
        if name in self._options.log_versions:
            LOG.info("Accepted connection with TLS", tlsVersion=name, remoteHost=remote)

    def subject_shown(self, connection: ssl.SSLObject | ssl.SSLSocket) -> Subject | None:
        """Return the subject of the client's certificate on an accepted connection. Errors: BadCertificate."""
        certificate = connection.getpeercert(binary_form=True)
        # Without verification a client may present any certificate.
        return read_certificate(certificate).subject if certificate is not None and self.verifies else None

    def begin(self) -> None:
        self.tell(datetime.now(UTC))

    def parameter(self) -> ServerParameter:
        def assign(value: Any) -> None:
            days = whole_number(_WARNING_PARAMETER, value)
            if days < 0:
                raise CommandError(
                    Code.BadValue,
                    f"Invalid value for parameter {_WARNING_PARAMETER}: {days} is not greater than or equal to 0",
                )
            self._warning_days = days

        return ServerParameter(
            name=_WARNING_PARAMETER, get=lambda: self._warning_days, assign=assign, startup_only=True
        )

    def accepted_by_version(self) -> dict[str, int]:
        return dict(self._versions)

    def tell(self, now: datetime) -> None:
        """Log the certificates in use, and those that expire soon."""
        for kind, certificate in (("Server", self._material.own), ("Cluster", self._material.presented)):
            if kind == "Cluster" and self._options.cluster_file is None:
                continue
            subject, ends = certificate.subject.text, certificate.ends
            LOG.info(
                "Certificate information", subject=subject, notValidBefore=certificate.begins, notValidAfter=ends,
                type=kind,
            )  # fmt: skip
            if self._warning_days and ends - now <= timedelta(days=self._warning_days):
                LOG.startup_warning(
                    "Server certificate will expire on the following date", subject=subject, date=ends,
                    days=(ends - now).days,
                )  # fmt: skip


def tls_certificates(options: TlsOptions) -> TlsCertificates | None:
    """Return the certificates of the options; None without TLS. Errors: StartError."""
    if options.mode is TlsMode.DISABLED:
        return None
    if options.fips and not get_fips_mode():
        raise StartError(
            f"--tlsFIPSMode: {ssl.OPENSSL_VERSION} does not compute with a FIPS module alone; it is told to in its own"
            " configuration (openssl.cnf)",
            _EXIT_CODE,
        )
    try:
        certificates = TlsCertificates(options)
    except Unusable as error:
        raise StartError(str(error), _EXIT_CODE) from None
    for holds, message in (
        (options.invalid_certificates, _ANY_CERTIFICATE),
        (options.invalid_hostnames, _ANY_HOST),
        (options.ca_file is None and options.cluster_ca_file is None, _NO_AUTHORITY),
    ):
        if holds:
            LOG.startup_warning(message)
    return certificates


def _read(options: TlsOptions) -> _Material:
    assert options.certificate_key_file is not None, "encryption needs a certificate"
    own = _read_own(options.certificate_key_file)
    cluster_certificate = own if options.cluster_file is None else _read_own(options.cluster_file)
    of_console = _accepting(options, options.certificate_key_file)
    if "TLS1_2" not in options.disabled_protocols:
        of_console.maximum_version = ssl.TLSVersion.TLSv1_2
    connecting = _context(ssl.PROTOCOL_TLS_CLIENT, options)
    if options.cluster_file is None:
        show(connecting, options.certificate_key_file, options.password)
    else:
        show(connecting, options.cluster_file, options.cluster_password)
    trust(connecting, options.ca_file, options.crl_file)
    if options.ca_file is None:
        connecting.load_default_certs()
    verify_servers(connecting, certificates=not options.invalid_certificates, hostnames=not options.invalid_hostnames)
    return _Material(
        _accepting(options, options.certificate_key_file), of_console, connecting, own, cluster_certificate
    )


def _accepting(options: TlsOptions, certificate: Path) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, options)
    show(context, certificate, options.password)
    authorities = options.cluster_ca_file or options.ca_file
    trust(context, authorities, options.crl_file)
    if authorities is not None and not options.invalid_certificates:
        context.verify_mode = ssl.CERT_OPTIONAL if options.without_certificates else ssl.CERT_REQUIRED
    return context


def _context(protocol: int, options: TlsOptions) -> ssl.SSLContext:
    context = new_context(protocol)
    if "TLS1_2" in options.disabled_protocols:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if "TLS1_3" in options.disabled_protocols:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def _read_own(path: Path) -> Certificate:
    """Read a certificate with its key, in a file that only its owner may read, valid now. Errors: Unusable."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OF_OTHERS:
                raise Unusable(
                    f"permissions on {path} are too open: a file with a key must be its owner's alone (chmod 600)"
                )
            certificate = read_first_certificate(file.read())
    except OSError as error:
        raise Unusable(f"cannot read the certificate file {path}: {error.strerror}") from None
    except BadCertificate:
        raise Unusable(f"there is no certificate in {path}") from None
    if not certificate.begins <= datetime.now(UTC) < certificate.ends:
        raise Unusable(f"The provided SSL certificate is expired or not yet valid: {path}")
    return certificate
