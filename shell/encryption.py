"""Encryption of the shell's connections."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from docstore.tls import new_context, show, trust, verify_servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """`ca_file`: the trusted authorities, by default those of this machine. `certificate_key_file`: the client's
    certificate.
    """

    ca_file: str | None = None
    certificate_key_file: str | None = None
    password: str | None = None
    crl_file: str | None = None
    invalid_certificates: bool = False
    """Do not verify the server's certificate."""
    invalid_hostnames: bool = False
    """Do not verify the host name of the server's certificate."""

    def context(self) -> ssl.SSLContext:
        """Errors: docstore.tls.Unusable."""
        context = new_context(ssl.PROTOCOL_TLS_CLIENT)
        verify_servers(context, certificates=not self.invalid_certificates, hostnames=not self.invalid_hostnames)
        if self.ca_file is None:
            context.load_default_certs()
        trust(context, self.ca_file, self.crl_file)
        if self.certificate_key_file is not None:
            show(context, self.certificate_key_file, self.password)
        return context
