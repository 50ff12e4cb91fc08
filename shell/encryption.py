"""How the shell's connections are encrypted."""

from __future__ import annotations

import ssl
from dataclasses import dataclass


class Unusable(ValueError):
    """Files that cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """`ca_file`: who is trusted, else whom this machine trusts. `certificate_key_file`: what is shown to servers."""

    ca_file: str | None = None
    certificate_key_file: str | None = None
    password: str | None = None
    crl_file: str | None = None
    invalid_certificates: bool = False
    """The server's certificate is not looked at."""
    invalid_hostnames: bool = False
    """It may be for another host."""

    def context(self) -> ssl.SSLContext:
        """Errors: Unusable."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = not (self.invalid_hostnames or self.invalid_certificates)
        context.verify_mode = ssl.CERT_NONE if self.invalid_certificates else ssl.CERT_REQUIRED
        if self.ca_file is None:
            context.load_default_certs()
        for path in (self.ca_file, self.crl_file):
            if path is not None:
                try:
                    context.load_verify_locations(path)
                except OSError as error:
                    raise Unusable(f"cannot use {path}: {_reason(error)}") from error
        if self.crl_file is not None:
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if self.certificate_key_file is not None:
            self._show(context, self.certificate_key_file)
        return context

    def _show(self, context: ssl.SSLContext, path: str) -> None:
        def asked() -> str:
            raise Unusable(f"the key in {path} is encrypted: --tlsCertificateKeyFilePassword is needed")

        try:
            context.load_cert_chain(path, password=asked if self.password is None else self.password)
        except OSError as error:
            raise Unusable(f"cannot use {path}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is not PEM").replace("_", " ").lower()
    return error.strerror or str(error)
